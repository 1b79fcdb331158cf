/* What the hand-written loops share. All functions have the same arguments and compute the same quantities as taut: loss and
 * largest excess per round, and the totals per constraint (signed, clipped, squared, peak).
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

/* The place of the first largest entry. */
static inline long largest(const double *restrict g, long m) {
    double best = g[0];
    for (long i = 1; i < m; i++) best = best > g[i] ? best : g[i];
    long place = 0;
    while (g[place] != best) place++;
    return place;
}

/* Doubly stochastic matrices: the constraints on sums of rows and of columns, each with both signs, and the least entry.
 * Returns the loss. */
static inline double lines(const double *restrict x, const double *restrict y, long d, double *restrict line, double *least) {
    double *columns = line + 2 * d, l = 0, low = x[0];
    for (long j = 0; j < d; j++) columns[j] = -1;
    for (long i = 0; i < d; i++) {
        double sum = -1;
        for (long j = 0; j < d; j++) {
            double v = x[i * d + j], e = v - y[i * d + j];
            sum += v; columns[j] += v; l += e * e; low = low < v ? low : v;
        }
        line[i] = sum; line[d + i] = -sum;
    }
    for (long j = 0; j < d; j++) columns[d + j] = -columns[j];
    *least = low;
    return 0.5 * l;
}

/* x plus w times the gradient of a constraint on the sum of a row or a column. */
static inline void along(double *restrict x, long d, long active, double w) {
    long i = active % d;
    if (active / d % 2) w = -w;
    if (active < 2 * d) for (long j = 0; j < d; j++) x[i * d + j] += w;
    else for (long j = 0; j < d; j++) x[j * d + i] += w;
}

/* The values of linear constraints, rows of A and then b, and the place of the first largest. */
static inline long rows_at(const double *restrict x, const double *restrict fixed, long d, long m, double *restrict g) {
    for (long i = 0; i < m; i++) {
        const double *row = fixed + i * d;
        double sum = -fixed[m * d + i];
        for (long k = 0; k < d; k++) sum += row[k] * x[k];
        g[i] = sum;
    }
    return largest(g, m);
}
