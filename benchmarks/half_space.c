/* Hand-written half-space projections, taut's default learner, with one function per problem of the suite.
 *
 *     y <- x - eta q,              q the loss gradient, shortened to twice the longest before it,
 *                                  eta = R / sqrt(100 max |q|^2 + sum |q|^2)
 *     y <- Pi_B( Pi_H(y) ),        H = {u : v + s.(u - x) <= 0}, v the largest constraint value, s its gradient
 *     H is stored among 16 cuts, as a unit normal and an offset, if x or y violates it
 *     x <- at most two sweeps of projections on all cuts, each followed by Pi_B, while a cut is violated
 *
 * The state has what the certificate needs, too: the sum of the squared feasibility moves, each divided by 2 eta, and whether all
 * cuts held.
 */
#include "loops.h"

#define CUTS 16
#define SWEEPS 2
#define START_UP 100.0
#define LONGER 2.0
#define PARALLEL 2e-12
#define ROUNDING (8 * 2.220446049250313e-16)

typedef struct {
    long rounds, filled, active[CUTS], hold;
    double steepest, total, correction, offsets[CUTS], *normals, *p, *s, *y;
} State;

static inline void begin(State *h, long n) {
    memset(h, 0, sizeof *h);
    h->hold = 1;
    h->normals = aligned_alloc(64, (8 * (CUTS + 3) * n + 63) / 64 * 64);
    h->p = h->normals + CUTS * n; h->s = h->p + n; h->y = h->s + n;
}

/* Frees the memory. What the certificate needs is read, so that the compiler does not leave it out. */
static inline void end(State *h, double *totals) {
    free(h->normals);
    if (h->correction < 0 || h->hold < 0) totals[0] = NAN;
}

static inline double dot(const double *restrict a, const double *restrict b, long n) {
    double sum = 0;
    for (long k = 0; k < n; k++) sum += a[k] * b[k];
    return sum;
}

static inline void remember(State *h, const double *restrict normal, double offset, long n) {
    long slot = -1, same = 0;
    for (long c = 0; c < h->filled && !same; c++) {
        double squares = 0;
        for (long k = 0; k < n; k++) { double gap = h->normals[c * n + k] - normal[k]; squares += gap * gap; }
        if (squares < PARALLEL) { slot = c; same = 1; }
    }
    if (!same && h->filled < CUTS) slot = h->filled++;
    else if (!same) { /* the one that has been inactive longest */
        slot = 0;
        for (long c = 1; c < CUTS; c++) if (h->active[c] < h->active[slot]) slot = c;
    }
    h->active[slot] = h->rounds;
    if (same && offset >= h->offsets[slot]) return;
    h->offsets[slot] = offset;
    memcpy(h->normals + slot * n, normal, sizeof(double) * n);
}

/* How far each cut is exceeded; whether one is by more than the tolerance. */
static inline int exceeded(const State *h, double *restrict excess, double tolerance, long n) {
    double worst = 0, size = 0;
    for (long c = 0; c < h->filled; c++) {
        excess[c] = dot(h->normals + c * n, h->y, n) - h->offsets[c];
        worst = worst > excess[c] ? worst : excess[c];
    }
    for (long k = 0; k < n; k++) size = size > fabs(h->y[k]) ? size : fabs(h->y[k]);
    return worst > tolerance + ROUNDING * size;
}

/* Project on one cut after the other. Excesses are right until the first that moves the point. */
static inline void sweep(State *h, double *restrict excess, long n) {
    int moved = 0;
    for (long c = 0; c < h->filled; c++) {
        const double *normal = h->normals + c * n;
        if (moved) excess[c] = dot(normal, h->y, n) - h->offsets[c];
        if (excess[c] > 0) {
            for (long k = 0; k < n; k++) h->y[k] -= excess[c] * normal[k];
            h->active[c] = h->rounds; moved = 1;
        }
    }
}

/* One round: the next x from the loss gradient p, the largest constraint value v and its gradient s. */
static inline void step(State *h, double *restrict x, double v, double radius, long n) {
    double *p = h->p, *s = h->s, *y = h->y, excess[CUTS];
    double squares = dot(p, p, n), length = sqrt(dot(s, s, n)), share = 1;
    double limit = LONGER * LONGER * h->steepest;
    h->rounds++;
    if (h->steepest > 0 && squares > limit) { share = sqrt(limit / squares); squares = limit; }
    h->steepest = h->steepest > squares ? h->steepest : squares;
    h->total += squares;
    double weighted = START_UP * h->steepest + h->total, eta = weighted > 0 ? radius / sqrt(weighted) : 0;
    double scale = length > 0 ? 1 / length : 0, distance = v * scale, here = 0, ahead = distance;
    for (long k = 0; k < n; k++) {
        double move = eta * share * p[k];
        s[k] *= scale; y[k] = x[k] - move;
        here += s[k] * x[k]; ahead -= s[k] * move;
    }
    double outside = ahead > 0 ? ahead : 0;
    if (ahead > 0) for (long k = 0; k < n; k++) y[k] -= ahead * s[k];
    double beyond = sqrt(dot(y, y, n)) - radius; /* a ball: the move onto it */
    if (beyond < 0) beyond = 0;
    if (eta > 0) h->correction += (outside * outside + beyond * beyond) / (2 * eta);
    project(y, n, radius);
    if (length > 0 && (distance > 0 || ahead > 0)) remember(h, s, here - distance, n);
    double tolerance = 2 * radius / ((h->rounds + 1.0) * (h->rounds + 1.0));
    int again = exceeded(h, excess, 0, n);
    for (long swept = 0; again && swept < SWEEPS; swept++) {
        sweep(h, excess, n);
        project(y, n, radius);
        again = exceeded(h, excess, tolerance, n);
    }
    h->hold &= !again;
    memcpy(x, y, sizeof(double) * n);
}

/* f = <c, x>, g = |x|_1 - 1 in the plane. */
void half_space_toy(ARGUMENTS) {
    Score score = {0, 0, 0, 0, 0};
    State h;
    begin(&h, 2);
    for (long t = 0; t < rounds; t++, data += 2) {
        double l = 0, g = -1;
        for (long k = 0; k < 2; k++) {
            l += data[k] * x[k]; g += fabs(x[k]);
            h.p[k] = data[k]; h.s[k] = x[k] >= 0 ? 1 : -1;
        }
        loss[t] = l; worst[t] = g;
        scored(&score, l, g);
        step(&h, x, g, radius, 2);
    }
    written(&score, totals);
    end(&h, totals);
}

/* f = 0.5 |X - Y|^2, g = max over rows and columns of |sum - 1| and over entries of -X. */
void half_space_doubly_stochastic(ARGUMENTS) {
    Score score = {0, 0, 0, 0, 0};
    State h;
    double line[4 * d];
    long n = d * d;
    begin(&h, n);
    for (long t = 0; t < rounds; t++, data += n) {
        double least, l = lines(x, data, d, line, &least);
        long active = largest(line, 4 * d);
        double best = line[active] >= -least ? line[active] : -least;
        loss[t] = l; worst[t] = best;
        scored(&score, l, best);
        for (long k = 0; k < n; k++) { h.p[k] = x[k] - data[k]; h.s[k] = 0; }
        if (line[active] < -least) {
            long k = 0;
            while (x[k] != least) k++;
            h.s[k] = -1;
        } else along(h.s, d, active, 1);
        step(&h, x, best, radius, n);
    }
    written(&score, totals);
    end(&h, totals);
}

/* Three generators, see loops.c. */
void half_space_dispatch(ARGUMENTS) {
    Score score = {0, 0, 0, 0, 0};
    State h;
    const double *a = fixed, *b = fixed + 3, *e = fixed + 6, *limit = fixed + 9;
    double xi = fixed[12], cap = fixed[13];
    begin(&h, 3);
    for (long t = 0; t < rounds; t++) {
        double l = 0, gap = -data[t], emission = -cap, g[7];
        for (int i = 0; i < 3; i++) {
            l += (0.5 * a[i] * x[i] + b[i]) * x[i]; gap += x[i]; emission += e[i] * x[i] * x[i];
            g[1 + i] = -x[i]; g[4 + i] = x[i] - limit[i];
        }
        g[0] = emission;
        long active = largest(g, 7);
        l += xi * gap * gap; loss[t] = l; worst[t] = g[active];
        scored(&score, l, g[active]);
        for (int i = 0; i < 3; i++) {
            h.p[i] = a[i] * x[i] + b[i] + 2 * xi * gap;
            h.s[i] = (active == 0 ? 2 * e[i] * x[i] : 0) - (active == 1 + i) + (active == 4 + i);
        }
        step(&h, x, g[active], radius, 3);
    }
    written(&score, totals);
    end(&h, totals);
}

/* f = log(1 + exp(-<z, x>)), g_i = |x_group(i)| - fixed[0] for m equal groups, of which the first largest counts. */
void half_space_logistic(ARGUMENTS) {
    long size = d / m;
    double g[m], *excess = totals + 1, *violation = excess + m, *squared = violation + m, *peak = squared + m;
    Score score = {0, 0, 0, 0, 0};
    State h;
    begin(&h, d);
    memset(totals, 0, sizeof(double) * (1 + 4 * m));
    for (long t = 0; t < rounds; t++, data += d) {
        double margin = 0;
        for (long i = 0; i < m; i++) {
            double squares = 1e-16;
            for (long k = i * size; k < (i + 1) * size; k++) { margin += data[k] * x[k]; squares += x[k] * x[k]; }
            double v = clip(g[i] = sqrt(squares) - fixed[0]);
            excess[i] += g[i]; violation[i] += v; squared[i] += v * v; peak[i] = peak[i] > v ? peak[i] : v;
        }
        long active = largest(g, m);
        double tail = exp(-fabs(margin)), l = log1p(tail) + clip(-margin), slope = -(margin > 0 ? tail : 1) / (1 + tail);
        loss[t] = l; worst[t] = g[active];
        scored(&score, l, g[active]);
        double norm = g[active] + fixed[0];
        if (m > 1) memset(h.s, 0, sizeof(double) * d);
        for (long k = active * size; k < (active + 1) * size; k++) h.s[k] = x[k] / norm;
        for (long k = 0; k < d; k++) h.p[k] = slope * data[k];
        step(&h, x, g[active], radius, d);
    }
    totals[0] = score.loss;
    end(&h, totals);
    if (m > 1) { totals[1 + 4 * m] = score.excess; totals[2 + 4 * m] = score.violation; totals[3 + 4 * m] = score.squared; }
}

/* f = <c, x>, g = max_i <a_i, x> - b_i. fixed: A by rows, then b. */
void half_space_polyhedron(ARGUMENTS) {
    double g[m];
    Score score = {0, 0, 0, 0, 0};
    State h;
    begin(&h, d);
    for (long t = 0; t < rounds; t++, data += d) {
        long active = rows_at(x, fixed, d, m, g);
        double l = dot(data, x, d);
        loss[t] = l; worst[t] = g[active];
        scored(&score, l, g[active]);
        memcpy(h.p, data, sizeof(double) * d);
        memcpy(h.s, fixed + active * d, sizeof(double) * d);
        step(&h, x, g[active], radius, d);
    }
    written(&score, totals);
    end(&h, totals);
}
