/* SPDX-FileCopyrightText: The Cabane developers
 * SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * The heat equation on the unit square, in parallel.
 *
 * Solves du/dt = d2u/dx2 + d2u/dy2 with u = 0 on the boundary and
 * u = sin(pi x) sin(pi y) at the start. The answer is known,
 * u = exp(-2 pi^2 t) sin(pi x) sin(pi y), so the program checks itself.
 *
 * The grid is cut into one block per rank. In every step a rank sends the edges
 * of its block to its neighbours, computes the inside while they travel, and
 * computes its own edges once theirs have come.
 */
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <mpi.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const double PI = 3.14159265358979323846;

/* The explicit scheme is stable up to a time step of h^2 / 4. */
static const double TIME_STEP_IN_H2 = 0.25;

/* With that time step the scheme's error never exceeds 0.61 h^2 for this initial
 * condition, whatever the time: the amplitude decays at a rate that is wrong by
 * pi^4 h^2 / 3, and t exp(-2 pi^2 t) is at most 1 / (2 pi^2 e). A halo that
 * arrives late or at the wrong place costs far more than h^2. */
static const double TOLERANCE_IN_H2 = 1.0;

enum { EXIT_WRONG = 1, EXIT_USAGE = 2 };

struct options {
  long points;       /* inner grid points in each direction */
  long steps;        /* time steps */
  long ranks;        /* ranks that there must be, 0: any number */
  double tolerance;  /* largest error that is accepted, 0: choose */
  const char *output; /* where to write the field, NULL: nowhere */
  bool help;
};

/* One rank's block of the grid, with a halo one point wide around it. Rows run
 * along y, columns along x, and the points of a row lie side by side. */
struct block {
  MPI_Comm grid;                    /* the ranks, arranged in two dimensions */
  int rank, size;                   /* this rank, and how many there are */
  int ranks[2];                     /* ranks along y and x */
  long points;                      /* inner points of the whole grid, each way */
  long rows, columns;               /* inner points of this block */
  long first_row, first_column;     /* where this block begins in the grid */
  int north, south, west, east;     /* the neighbours, or MPI_PROC_NULL */
  MPI_Datatype row, column;         /* one edge of the block */
};

/* The start of the file that is written; the field follows, row by row. */
struct header {
  char magic[8];
  int64_t points, rank_rows, rank_columns, steps;
  double time, error;
  int64_t reserved;
};

static const char USAGE[] =
    "usage: heat [--points N] [--steps N] [--ranks N] [--tolerance E] [--output FILE]\n"
    "\n"
    "  --points N      grid points in each direction (default 256)\n"
    "  --steps N       time steps (default 10000)\n"
    "  --ranks N       fail unless there are N ranks\n"
    "  --tolerance E   largest error against the exact solution (default: h^2)\n"
    "  --output FILE   write the temperature there\n"
    "  --help          show this text\n";

/* Prints to stderr on rank 0, because all ranks have the same thing to say. */
static void complain(const char *format, ...) {
  int rank;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (rank != 0) return;
  va_list arguments;
  va_start(arguments, format);
  fputs("heat: ", stderr);
  vfprintf(stderr, format, arguments);
  fputc('\n', stderr);
  va_end(arguments);
}

/* Reads a whole number from 1 to `most`. */
static bool parse_count(const char *name, const char *text, long most, long *value) {
  char *end;
  errno = 0;
  *value = strtol(text, &end, 10);
  if (errno == 0 && end != text && *end == '\0' && *value >= 1 && *value <= most) return true;
  complain("%s needs a whole number from 1 to %ld, not '%s'", name, most, text);
  return false;
}

/* Reads a number greater than 0. */
static bool parse_positive(const char *name, const char *text, double *value) {
  char *end;
  *value = strtod(text, &end);
  if (end != text && *end == '\0' && isfinite(*value) && *value > 0) return true;
  complain("%s needs a number greater than 0, not '%s'", name, text);
  return false;
}

static bool parse_options(int count, char **words, struct options *options) {
  *options = (struct options){.points = 256, .steps = 10000};
  for (int i = 1; i < count; i++) {
    const char *name = words[i];
    if (strcmp(name, "--help") == 0) {
      options->help = true;
      return true;
    }
    const char *const known[] = {"--points", "--steps", "--ranks", "--tolerance", "--output"};
    size_t which = 0;
    while (which < 5 && strcmp(name, known[which]) != 0) which++;
    if (which == 5) {
      complain("unknown argument '%s'; heat --help lists what there is", name);
      return false;
    }
    if (++i == count) {
      complain("%s needs a value", name);
      return false;
    }
    const char *text = words[i];
    bool good = true;
    switch (which) {
      case 0: good = parse_count(name, text, 1000000, &options->points); break;
      case 1: good = parse_count(name, text, LONG_MAX, &options->steps); break;
      case 2: good = parse_count(name, text, INT_MAX, &options->ranks); break;
      case 3: good = parse_positive(name, text, &options->tolerance); break;
      default: options->output = text;
    }
    if (!good) return false;
  }
  return true;
}

/* Divides `points` among `parts` and returns the share of number `part`. */
static long share(long points, int parts, int part, long *first) {
  long each = points / parts, left = points % parts;
  *first = part * each + (part < left ? part : left);
  return each + (part < left);
}

static bool make_block(const struct options *options, struct block *block) {
  *block = (struct block){.points = options->points};
  MPI_Comm_size(MPI_COMM_WORLD, &block->size);
  if (options->ranks != 0 && options->ranks != block->size) {
    /* A launcher of another MPI starts N programs that each believe to be alone. */
    complain("there should be %ld ranks, but MPI says %d: was this program started with"
             " the launcher of another MPI?", options->ranks, block->size);
    return false;
  }
  MPI_Dims_create(block->size, 2, block->ranks);
  if (block->ranks[0] > block->points) {
    complain("%ld points are too few for %d ranks in one direction", block->points,
             block->ranks[0]);
    return false;
  }
  MPI_Cart_create(MPI_COMM_WORLD, 2, block->ranks, (int[]){0, 0}, 1, &block->grid);
  MPI_Comm_rank(block->grid, &block->rank);
  int place[2];
  MPI_Cart_coords(block->grid, block->rank, 2, place);
  block->rows = share(block->points, block->ranks[0], place[0], &block->first_row);
  block->columns = share(block->points, block->ranks[1], place[1], &block->first_column);
  MPI_Cart_shift(block->grid, 0, 1, &block->north, &block->south);
  MPI_Cart_shift(block->grid, 1, 1, &block->west, &block->east);
  MPI_Type_contiguous((int)block->columns, MPI_DOUBLE, &block->row);
  MPI_Type_vector((int)block->rows, 1, (int)block->columns + 2, MPI_DOUBLE, &block->column);
  MPI_Type_commit(&block->row);
  MPI_Type_commit(&block->column);
  return true;
}

static void free_block(struct block *block) {
  MPI_Type_free(&block->row);
  MPI_Type_free(&block->column);
  MPI_Comm_free(&block->grid);
}

/* The place of a point in the memory of a block; row 0 and column 0 are halo. */
static size_t at(const struct block *block, long row, long column) {
  return (size_t)row * (size_t)(block->columns + 2) + (size_t)column;
}

static double *make_field(const struct block *block) {
  double *field = calloc(at(block, block->rows + 2, 0), sizeof *field);
  if (field == NULL) {
    fprintf(stderr, "heat: rank %d has no memory for %ld x %ld points\n", block->rank,
            block->rows, block->columns);
    MPI_Abort(MPI_COMM_WORLD, EXIT_WRONG);
  }
  return field;
}

/* The exact solution at a point of the block, `decay` being exp(-2 pi^2 t). */
static double exact(const struct block *block, long row, long column, double decay) {
  double h = 1.0 / (double)(block->points + 1);
  double y = h * (double)(block->first_row + row), x = h * (double)(block->first_column + column);
  return decay * sin(PI * x) * sin(PI * y);
}

/* Starts sending the four edges and receiving the four halos. */
static void start_exchange(const struct block *block, double *field, MPI_Request requests[8]) {
  long last_row = block->rows, last_column = block->columns;
  const struct {
    int neighbour;
    MPI_Datatype edge;
    size_t send, receive;
  } sides[4] = {
      {block->north, block->row, at(block, 1, 1), at(block, 0, 1)},
      {block->south, block->row, at(block, last_row, 1), at(block, last_row + 1, 1)},
      {block->west, block->column, at(block, 1, 1), at(block, 1, 0)},
      {block->east, block->column, at(block, 1, last_column), at(block, 1, last_column + 1)},
  };
  for (int side = 0; side < 4; side++) {
    /* What goes north comes from the south: the tag names the way of the message. */
    MPI_Irecv(field + sides[side].receive, 1, sides[side].edge, sides[side].neighbour, side ^ 1,
              block->grid, &requests[2 * side]);
    MPI_Isend(field + sides[side].send, 1, sides[side].edge, sides[side].neighbour, side,
              block->grid, &requests[2 * side + 1]);
  }
}

/* Computes the points of one step in the rows and columns from first to last. */
static void step_inside(const struct block *block, const double *restrict old,
                        double *restrict new, long first_row, long last_row, long first_column,
                        long last_column) {
  for (long row = first_row; row <= last_row; row++) {
    const double *here = old + at(block, row, 0);
    const double *above = old + at(block, row - 1, 0), *below = old + at(block, row + 1, 0);
    double *result = new + at(block, row, 0);
    for (long i = first_column; i <= last_column; i++)
      result[i] = here[i] + TIME_STEP_IN_H2 * (above[i] + below[i] + here[i - 1] + here[i + 1]
                                               - 4.0 * here[i]);
  }
}

static void step(const struct block *block, double *old, double *new) {
  long rows = block->rows, columns = block->columns;
  MPI_Request requests[8];
  start_exchange(block, old, requests);
  step_inside(block, old, new, 2, rows - 1, 2, columns - 1);
  MPI_Waitall(8, requests, MPI_STATUSES_IGNORE);
  step_inside(block, old, new, 1, 1, 1, columns);
  if (rows > 1) step_inside(block, old, new, rows, rows, 1, columns);
  step_inside(block, old, new, 2, rows - 1, 1, 1);
  if (columns > 1) step_inside(block, old, new, 2, rows - 1, columns, columns);
}

/* Returns the largest difference to the exact solution, over all ranks. */
static double error_of(const struct block *block, const double *field, double decay) {
  double worst = 0;
  for (long row = 1; row <= block->rows; row++)
    for (long column = 1; column <= block->columns; column++) {
      double error = fabs(field[at(block, row, column)] - exact(block, row, column, decay));
      /* Written so that a NaN counts as an error, and not as none. */
      if (!(error <= worst)) worst = isnan(error) ? HUGE_VAL : error;
    }
  MPI_Allreduce(MPI_IN_PLACE, &worst, 1, MPI_DOUBLE, MPI_MAX, block->grid);
  return worst;
}

/* Makes a failure on one rank a failure on all, so that none waits for the others. */
static int agreed(const struct block *block, int status) {
  MPI_Allreduce(MPI_IN_PLACE, &status, 1, MPI_INT, MPI_MAX, block->grid);
  return status;
}

/* Writes header and field: every rank puts its block where it belongs. */
static int write_blocks(const struct block *block, MPI_File file, const struct header *header,
                        const double *field) {
  int points = (int)block->points, rows = (int)block->rows, columns = (int)block->columns;
  MPI_Datatype in_file, in_memory;
  MPI_Type_create_subarray(2, (int[]){points, points}, (int[]){rows, columns},
                           (int[]){(int)block->first_row, (int)block->first_column}, MPI_ORDER_C,
                           MPI_DOUBLE, &in_file);
  MPI_Type_create_subarray(2, (int[]){rows + 2, columns + 2}, (int[]){rows, columns},
                           (int[]){1, 1}, MPI_ORDER_C, MPI_DOUBLE, &in_memory);
  MPI_Type_commit(&in_file);
  MPI_Type_commit(&in_memory);
  MPI_Offset size = (MPI_Offset)sizeof *header + (MPI_Offset)sizeof(double) * points * points;
  int status = agreed(block, MPI_File_set_size(file, size));
  if (status == MPI_SUCCESS && block->rank == 0)
    status = MPI_File_write_at(file, 0, header, (int)sizeof *header, MPI_BYTE, MPI_STATUS_IGNORE);
  status = agreed(block, status);
  if (status == MPI_SUCCESS)
    status = agreed(block, MPI_File_set_view(file, sizeof *header, MPI_DOUBLE, in_file, "native",
                                             MPI_INFO_NULL));
  if (status == MPI_SUCCESS)
    status = agreed(block, MPI_File_write_all(file, field, 1, in_memory, MPI_STATUS_IGNORE));
  MPI_Type_free(&in_file);
  MPI_Type_free(&in_memory);
  return status;
}

static bool write_field(const struct block *block, const struct header *header,
                        const double *field, const char *path) {
  MPI_File file;
  int mine = MPI_File_open(block->grid, path, MPI_MODE_CREATE | MPI_MODE_WRONLY, MPI_INFO_NULL,
                           &file);
  int status = agreed(block, mine);
  if (status == MPI_SUCCESS) status = write_blocks(block, file, header, field);
  if (mine == MPI_SUCCESS) {
    int closed = MPI_File_close(&file);
    if (status == MPI_SUCCESS) status = agreed(block, closed);
  }
  if (status == MPI_SUCCESS) return true;
  char reason[MPI_MAX_ERROR_STRING];
  int kind, length;
  MPI_Error_class(status, &kind);
  MPI_Error_string(kind, reason, &length);
  complain("cannot write '%s': %s", path, kind == MPI_ERR_IO ? "is the disk full?" : reason);
  return false;
}

static void print_report(const struct block *block, const struct header *header, double seconds,
                         double tolerance, const char *output) {
  if (block->rank != 0) return;
  char library[MPI_MAX_LIBRARY_VERSION_STRING], name[32] = "", version[32] = "";
  int length;
  MPI_Get_library_version(library, &length);
  /* "MPICH Version: 5.0.2" and "Open MPI v5.0.2, ..." alike: the first line is enough. */
  library[strcspn(library, "\n,")] = '\0';
  if (sscanf(library, "%31s Version: %31s", name, version) == 2)
    snprintf(library, sizeof library, "%s %s", name, version);
  double updates = (double)block->points * (double)block->points * (double)header->steps;
  printf("library  %s\n", library);
  printf("ranks    %d, as %d x %d\n", block->size, block->ranks[0], block->ranks[1]);
  printf("grid     %ld x %ld points, %lld steps to t = %.4g\n", block->points, block->points,
         (long long)header->steps, header->time);
  printf("speed    %.1f us per step, %.2f s in all, %.0f million points per second\n",
         1e6 * seconds / (double)header->steps, seconds, 1e-6 * updates / seconds);
  printf("error    %.2e against the exact solution, %.2e allowed\n", header->error, tolerance);
  if (output != NULL) printf("written  %s\n", output);
}

static int solve(const struct options *options, const struct block *block) {
  double *field = make_field(block), *next = make_field(block);
  for (long row = 1; row <= block->rows; row++)
    for (long column = 1; column <= block->columns; column++)
      field[at(block, row, column)] = exact(block, row, column, 1.0);

  MPI_Barrier(block->grid);
  double seconds = -MPI_Wtime();
  for (long i = 0; i < options->steps; i++) {
    step(block, field, next);
    double *swap = field;
    field = next;
    next = swap;
  }
  seconds += MPI_Wtime();
  MPI_Allreduce(MPI_IN_PLACE, &seconds, 1, MPI_DOUBLE, MPI_MAX, block->grid);

  double h = 1.0 / (double)(block->points + 1), time = TIME_STEP_IN_H2 * h * h * (double)options->steps;
  struct header header = {.magic = "heat-2d",
                          .points = block->points,
                          .rank_rows = block->ranks[0],
                          .rank_columns = block->ranks[1],
                          .steps = options->steps,
                          .time = time,
                          .error = error_of(block, field, exp(-2.0 * PI * PI * time))};
  double tolerance = options->tolerance > 0 ? options->tolerance : TOLERANCE_IN_H2 * h * h;
  bool good = options->output == NULL || write_field(block, &header, field, options->output);
  if (good) print_report(block, &header, seconds, tolerance, options->output);
  if (good && header.error > tolerance) {
    complain("the error is larger than allowed");
    good = false;
  }
  free(field);
  free(next);
  return good ? EXIT_SUCCESS : EXIT_WRONG;
}

int main(int count, char **words) {
  MPI_Init(&count, &words);
  struct options options;
  struct block block;
  int status = EXIT_USAGE;
  if (parse_options(count, words, &options)) {
    int rank;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (options.help) {
      if (rank == 0) fputs(USAGE, stdout);
      status = EXIT_SUCCESS;
    } else if (make_block(&options, &block)) {
      status = solve(&options, &block);
      free_block(&block);
    }
  }
  MPI_Finalize();
  return status;
}
