/* Hand-written Clipped-OGD with one function per problem of the suite, with which taut is compared.
 *
 *     x <- Pi_B( x - eta df(x) - (1/sigma) sum_i [g_i(x)]_+ dg_i(x) ),   B = the ball of the given radius around 0
 *
 * All functions have the same arguments and compute the same quantities as taut: loss and largest excess per round, and
 * the totals per constraint (signed, clipped, squared, peak). If a problem aggregates its constraints by their maximum, the
 * gradient is the mean of the active gradients, as in taut, and there is one constraint.
 *
 *     data    one row per round                 fixed   numbers of the problem itself
 *     x       the decision, first and last      loss, worst   one entry per round
 *     totals  loss, then excess[k], violation[k], squared[k], peak[k] of the k constraints,
 *             then excess, violation, squared of the largest (only if k > 1)
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define ARGUMENTS                                                                                                     \
    const double *restrict data, long rounds, long d, long m, const double *restrict fixed, double eta, double sigma, \
        double radius, double *restrict x, double *restrict loss, double *restrict worst, double *restrict totals

static inline double clip(double v) { return v > 0 ? v : 0; }

/* Totals of one constraint, kept in registers. */
typedef struct { double loss, excess, violation, squared, peak; } Score;

static inline double scored(Score *s, double l, double g) {
    double v = clip(g);
    s->loss += l; s->excess += g; s->violation += v; s->squared += v * v;
    s->peak = s->peak > v ? s->peak : v;
    return v;
}

static inline void written(const Score *s, double *totals) {
    totals[0] = s->loss; totals[1] = s->excess; totals[2] = s->violation; totals[3] = s->squared; totals[4] = s->peak;
}

static inline void project(double *restrict x, long n, double radius) {
    double squares = 0;
    for (long k = 0; k < n; k++) squares += x[k] * x[k];
    if (squares > radius * radius) {
        double scale = radius / sqrt(squares);
        for (long k = 0; k < n; k++) x[k] *= scale;
    }
}

/* f = <c, x>, g = |x|_1 - 1 in the plane. */
void toy(ARGUMENTS) {
    Score s = {0, 0, 0, 0, 0};
    double a = x[0], b = x[1];
    for (long t = 0; t < rounds; t++) {
        double p = data[2 * t], q = data[2 * t + 1];
        double l = p * a + q * b, g = fabs(a) + fabs(b) - 1;
        loss[t] = l; worst[t] = g;
        double w = scored(&s, l, g) / sigma;
        a -= eta * p + w * ((a > 0) - (a < 0));
        b -= eta * q + w * ((b > 0) - (b < 0));
        double squares = a * a + b * b;
        if (squares > radius * radius) { double scale = radius / sqrt(squares); a *= scale; b *= scale; }
    }
    x[0] = a; x[1] = b;
    written(&s, totals);
}

/* f = 0.5 |X - Y|^2, g = max over rows and columns of |sum - 1| and over entries of -X. */
void doubly_stochastic(ARGUMENTS) {
    Score s = {0, 0, 0, 0, 0};
    double line[4 * d], *columns = line + 2 * d, by_row[d], by_column[d];
    long n = d * d;
    for (long t = 0; t < rounds; t++, data += n) {
        double l = 0, least = x[0], best;
        for (long j = 0; j < d; j++) columns[j] = 0;
        for (long i = 0; i < d; i++) {
            double sum = 0;
            for (long j = 0; j < d; j++) {
                double v = x[i * d + j], e = v - data[i * d + j];
                sum += v; columns[j] += v; l += e * e; least = least < v ? least : v;
            }
            line[i] = sum - 1; line[d + i] = 1 - sum;
        }
        for (long j = 0; j < d; j++) { columns[j] -= 1; columns[d + j] = -columns[j]; }
        best = -least;
        for (long k = 0; k < 4 * d; k++) best = best > line[k] ? best : line[k];
        l *= 0.5; loss[t] = l; worst[t] = best;
        double v = scored(&s, l, best);
        if (v > 0) {
            long active = 0, low = 0;
            for (long k = 0; k < 4 * d; k++) active += line[k] == best;
            if (-least == best) { for (long k = 0; k < n; k++) low += x[k] == least; active += low; }
            double w = v / (sigma * active);
            for (long i = 0; i < d; i++) {
                by_row[i] = w * ((line[i] == best) - (line[d + i] == best));
                by_column[i] = w * ((columns[i] == best) - (columns[d + i] == best));
            }
            for (long i = 0; i < d; i++)
                for (long j = 0; j < d; j++) {
                    double v = x[i * d + j];
                    double pull = by_row[i] + by_column[j];
                    if (low) pull -= v == least ? w : 0;
                    x[i * d + j] = v - eta * (v - data[i * d + j]) - pull;
                }
        } else
            for (long k = 0; k < n; k++) x[k] -= eta * (x[k] - data[k]);
        project(x, n, radius);
    }
    written(&s, totals);
}

/* Three generators: f = sum 0.5 a x^2 + b x + xi (sum x - demand)^2, g = max(emission - cap, -x, x - limit).
 * fixed: a[3], b[3], emission[3], limit[3], xi, cap. */
void dispatch(ARGUMENTS) {
    Score s = {0, 0, 0, 0, 0};
    const double *a = fixed, *b = fixed + 3, *e = fixed + 6, *limit = fixed + 9;
    double xi = fixed[12], cap = fixed[13], y[3] = {x[0], x[1], x[2]};
    for (long t = 0; t < rounds; t++) {
        double l = 0, gap = -data[t], emission = -cap, g[7], best;
        for (int i = 0; i < 3; i++) {
            l += (0.5 * a[i] * y[i] + b[i]) * y[i]; gap += y[i]; emission += e[i] * y[i] * y[i];
            g[1 + i] = -y[i]; g[4 + i] = y[i] - limit[i];
        }
        g[0] = best = emission;
        for (int k = 1; k < 7; k++) best = best > g[k] ? best : g[k];
        l += xi * gap * gap; loss[t] = l; worst[t] = best;
        double v = scored(&s, l, best), w = 0;
        if (v > 0) {
            int active = 0;
            for (int k = 0; k < 7; k++) active += g[k] == best;
            w = v / (sigma * active);
        }
        double squares = 0;
        for (int i = 0; i < 3; i++) {
            double pull = (g[0] == best ? 2 * e[i] * y[i] : 0) - (g[1 + i] == best) + (g[4 + i] == best);
            y[i] -= eta * (a[i] * y[i] + b[i] + 2 * xi * gap) + w * pull;
            squares += y[i] * y[i];
        }
        if (squares > radius * radius) { double scale = radius / sqrt(squares); for (int i = 0; i < 3; i++) y[i] *= scale; }
    }
    for (int i = 0; i < 3; i++) x[i] = y[i];
    written(&s, totals);
}

/* f = log(1 + exp(-<z, x>)), g_i = |x_group(i)| - fixed[0] for m equal groups, each with its own multiplier. */
void logistic(ARGUMENTS) {
    long size = d / m;
    double weight[m], *excess = totals + 1, *violation = excess + m, *squared = violation + m, *peak = squared + m;
    Score s = {0, 0, 0, 0, 0};
    memset(totals, 0, sizeof(double) * (1 + 4 * m));
    for (long t = 0; t < rounds; t++, data += d) {
        double margin = 0, best = -1e308;
        for (long i = 0; i < m; i++) {
            double squares = 1e-16;
            for (long k = i * size; k < (i + 1) * size; k++) { margin += data[k] * x[k]; squares += x[k] * x[k]; }
            double norm = sqrt(squares), g = norm - fixed[0], v = clip(g);
            excess[i] += g; violation[i] += v; squared[i] += v * v; peak[i] = peak[i] > v ? peak[i] : v;
            weight[i] = v / (sigma * norm); best = best > g ? best : g;
        }
        double tail = exp(-fabs(margin)), l = log1p(tail) + clip(-margin);
        double slope = -eta * (margin > 0 ? tail : 1) / (1 + tail);
        loss[t] = l; worst[t] = best;
        scored(&s, l, best);
        double squares = 0;
        for (long i = 0; i < m; i++)
            for (long k = i * size; k < (i + 1) * size; k++) {
                x[k] -= slope * data[k] + weight[i] * x[k];
                squares += x[k] * x[k];
            }
        if (squares > radius * radius) { double scale = radius / sqrt(squares); for (long k = 0; k < d; k++) x[k] *= scale; }
    }
    totals[0] = s.loss;
    if (m > 1) { totals[1 + 4 * m] = s.excess; totals[2 + 4 * m] = s.violation; totals[3 + 4 * m] = s.squared; }
}

/* f = <c, x>, g = max_i <a_i, x> - b_i. fixed: A by rows, then b. */
void polyhedron(ARGUMENTS) {
    const double *b = fixed + m * d;
    double *g = malloc(sizeof(double) * m);
    Score s = {0, 0, 0, 0, 0};
    for (long t = 0; t < rounds; t++, data += d) {
        double l = 0, best = -1e308;
        for (long k = 0; k < d; k++) l += data[k] * x[k];
        for (long i = 0; i < m; i++) {
            const double *row = fixed + i * d;
            double sum = -b[i];
            for (long k = 0; k < d; k++) sum += row[k] * x[k];
            g[i] = sum; best = best > sum ? best : sum;
        }
        loss[t] = l; worst[t] = best;
        double v = scored(&s, l, best);
        for (long k = 0; k < d; k++) x[k] -= eta * data[k];
        if (v > 0) {
            long active = 0;
            for (long i = 0; i < m; i++) active += g[i] == best;
            double w = v / (sigma * active);
            for (long i = 0; i < m; i++)
                if (g[i] == best)
                    for (long k = 0; k < d; k++) x[k] -= w * fixed[i * d + k];
        }
        project(x, d, radius);
    }
    free(g);
    written(&s, totals);
}
