/* SPDX-FileCopyrightText: The Cabane developers
   SPDX-License-Identifier: Apache-2.0 OR MIT

   Solves the heat equation on a grid, and multiplies matrices. Prints the level of x86-64 that the compiler could use,
   and the seconds of both. Results that are wrong are an error. */

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { WIDTH = 512, HEIGHT = 256, ORDER = 384 };

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static double grid[2][HEIGHT][WIDTH];

/* What the grid has together stays the same as long as nothing reaches its border: 400 steps are few enough. */
static double heat(int steps) {
    for (int y = 0; y < HEIGHT; y++)
        for (int x = 0; x < WIDTH; x++)
            grid[0][y][x] = grid[1][y][x] = y > 100 && y < 150 && x > 200 && x < 300 ? 1.0 : 0.0;
    int from = 0;
    for (int step = 0; step < steps; step++, from = !from)
        for (int y = 1; y < HEIGHT - 1; y++) {
            const double *restrict above = grid[from][y - 1], *restrict here = grid[from][y];
            const double *restrict below = grid[from][y + 1];
            double *restrict next = grid[!from][y];
            for (int x = 1; x < WIDTH - 1; x++)
                next[x] = here[x] + 0.2 * (above[x] + below[x] + here[x - 1] + here[x + 1] - 4.0 * here[x]);
        }
    double sum = 0.0;
    for (int y = 0; y < HEIGHT; y++)
        for (int x = 0; x < WIDTH; x++)
            sum += grid[from][y][x];
    return sum;
}

static float left[ORDER][ORDER], right[ORDER][ORDER], product[ORDER][ORDER];

static float multiply(int times) {
    for (int row = 0; row < ORDER; row++)
        for (int column = 0; column < ORDER; column++) {
            left[row][column] = row == column ? 2.0f : 0.0f;
            right[row][column] = (float)(row % 7 + column % 5);
            product[row][column] = 0.0f;
        }
    for (int time = 0; time < times; time++)
        for (int row = 0; row < ORDER; row++)
            for (int inner = 0; inner < ORDER; inner++) {
                const float factor = left[row][inner];
                const float *restrict from = right[inner];
                float *restrict to = product[row];
                for (int column = 0; column < ORDER; column++)
                    to[column] += factor * from[column];
            }
    return product[ORDER / 2][ORDER / 3];
}

int main(int argc, char **argv) {
    const int times = argc > 1 ? atoi(argv[1]) : 1;
#if defined __AVX512VL__
    const char *level = "v4";
#elif defined __AVX2__
    const char *level = "v3";
#elif defined __SSE4_2__
    const char *level = "v2";
#else
    const char *level = "v1";
#endif
    double begun = now();
    double sum = 0.0;
    for (int time = 0; time < times; time++)
        sum = heat(400);
    const double first = now() - begun;
    begun = now();
    const float element = multiply(10 * times);
    const double second = now() - begun;
    const double expected = 49.0 * 99.0;
    const float wanted = 20.0f * (float)times * (float)(ORDER / 2 % 7 + ORDER / 3 % 5);
    if (fabs(sum - expected) > 1e-6 * expected || fabsf(element - wanted) > 1e-3f * wanted) {
        fprintf(stderr, "grid: the sum is %g, and the element %g\n", sum, (double)element);
        return 1;
    }
    printf("%s %.9f %.9f\n", level, first, second);
    return 0;
}
