/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Micro measurements: the parts of weft that a command passes, each alone and with hot caches. A
 * group of rows is one function. A row is a function that repeats an operation `count` times and
 * returns the time. Time is CPU time of the thread where one thread works, so that other load
 * disturbs little, and elapsed time where two threads work.
 */
#ifndef WEFT_BENCH_MICRO_H
#define WEFT_BENCH_MICRO_H

#include <stdbool.h>
#include <stdint.h>

#define MICRO_ROWS_MAX   64
#define MICRO_ROUNDS_MAX 15

enum micro_unit {
	MICRO_NS,         /* nanoseconds for one */
	MICRO_GB_PER_S,   /* `bytes` each */
	MICRO_PER_SECOND, /* how many in a second */
};

struct micro_row {
	const char *group;
	char name[64];
	enum micro_unit unit;
	unsigned rounds;
	double values[MICRO_ROUNDS_MAX]; /* ascending */
};

struct micro {
	unsigned rounds;
	uint64_t round_ns; /* how long a round shall take */
	unsigned row_count;
	struct micro_row rows[MICRO_ROWS_MAX];
};

/* Repeats the operation `count` times; returns the nanoseconds. */
typedef uint64_t (*micro_fn)(void *arg, uint64_t count);

struct micro_what {
	const char *group;
	const char *name;
	enum micro_unit unit;
	uint64_t bytes; /* MICRO_GB_PER_S */
};

/* Finds the count that fills a round, then measures the rounds. */
void micro_measure(struct micro *micro, const struct micro_what *what, micro_fn fn, void *arg);

/* The groups. */
void micro_pdu(struct micro *micro);
void micro_crc(struct micro *micro);
void micro_reactor(struct micro *micro);
void micro_posts(struct micro *micro);
void micro_dispatch(struct micro *micro);

/* Keeps the compiler from dropping a computation whose result is at this address. */
static inline void micro_keep(const void *address)
{
	__asm__ volatile("" : : "r"(address) : "memory");
}

#endif
