/* Hand-written Clipped-OGD with one function per problem of the suite, with which taut is compared.
 *
 *     x <- Pi_B( x - eta df(x) - (1/sigma) sum_i [g_i(x)]_+ dg_i(x) ),   B = the ball of the given radius around 0
 *
 * If a problem aggregates its constraints by their maximum, there is one constraint, and its gradient is that of the first
 * largest one, as in taut.
 */
#include "loops.h"

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
    double line[4 * d];
    long n = d * d;
    for (long t = 0; t < rounds; t++, data += n) {
        double least = x[0], l = lines(x, data, d, line, &least);
        long active = largest(line, 4 * d);
        double best = line[active] >= -least ? line[active] : -least;
        loss[t] = l; worst[t] = best;
        double w = scored(&s, l, best) / sigma;
        if (w > 0 && line[active] < -least) { /* the first of the smallest entries */
            long k = 0;
            while (x[k] != least) k++;
            for (long i = 0; i < n; i++) x[i] -= eta * (x[i] - data[i]);
            x[k] += w;
        } else {
            for (long k = 0; k < n; k++) x[k] -= eta * (x[k] - data[k]);
            if (w > 0) along(x, d, active, -w);
        }
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
        double l = 0, gap = -data[t], emission = -cap, g[7];
        for (int i = 0; i < 3; i++) {
            l += (0.5 * a[i] * y[i] + b[i]) * y[i]; gap += y[i]; emission += e[i] * y[i] * y[i];
            g[1 + i] = -y[i]; g[4 + i] = y[i] - limit[i];
        }
        g[0] = emission;
        long active = largest(g, 7);
        l += xi * gap * gap; loss[t] = l; worst[t] = g[active];
        double w = scored(&s, l, g[active]) / sigma, squares = 0;
        for (int i = 0; i < 3; i++) {
            double pull = (active == 0 ? 2 * e[i] * y[i] : 0) - (active == 1 + i) + (active == 4 + i);
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
    double g[m];
    Score s = {0, 0, 0, 0, 0};
    for (long t = 0; t < rounds; t++, data += d) {
        double l = 0;
        for (long k = 0; k < d; k++) l += data[k] * x[k];
        long active = rows_at(x, fixed, d, m, g);
        loss[t] = l; worst[t] = g[active];
        double w = scored(&s, l, g[active]) / sigma;
        const double *row = fixed + active * d;
        for (long k = 0; k < d; k++) x[k] -= eta * data[k] + w * row[k];
        project(x, d, radius);
    }
    written(&s, totals);
}
