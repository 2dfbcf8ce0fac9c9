/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The whole test framework: TAP on standard output, for unit, fault and simulation programs.
 *
 *     static void decodes_a_read(void) { EXPECT_EQ(2, 1 + 1); }
 *     int main(void) { TAP_RUN(decodes_a_read); return tap_end(); }
 *
 * A failed EXPECT prints its place and reason, marks the running case as failed and continues.
 */
#ifndef WEFT_TESTS_TAP_H
#define WEFT_TESTS_TAP_H

#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

static int tap_count;
static int tap_failures;
static bool tap_case_failed;

__attribute__((unused)) static void tap_run(const char *name, void (*fn)(void))
{
	tap_case_failed = false;
	fn();
	tap_count++;
	tap_failures += tap_case_failed;
	printf("%s %d - %s\n", tap_case_failed ? "not ok" : "ok", tap_count, name);
	fflush(stdout);
}

__attribute__((unused)) static void tap_skip(const char *name, const char *why)
{
	tap_count++;
	printf("ok %d - %s # SKIP %s\n", tap_count, name, why);
}

__attribute__((unused)) static int tap_end(void)
{
	printf("1..%d\n", tap_count);
	return tap_failures != 0;
}

#define TAP_RUN(fn) tap_run(#fn, fn)

#define EXPECT(cond)                                                                               \
	do {                                                                                       \
		if (!(cond)) {                                                                     \
			printf("# %s:%d: expected %s\n", __FILE__, __LINE__, #cond);               \
			tap_case_failed = true;                                                    \
		}                                                                                  \
	} while (0)

/* Like EXPECT, with the expectation in words. */
#define EXPECT_THAT(cond, ...)                                                                     \
	do {                                                                                       \
		if (!(cond)) {                                                                     \
			printf("# %s:%d: expected: ", __FILE__, __LINE__);                         \
			printf(__VA_ARGS__);                                                       \
			printf("\n");                                                              \
			tap_case_failed = true;                                                    \
		}                                                                                  \
	} while (0)

#define EXPECT_EQ(want, got)                                                                       \
	do {                                                                                       \
		int64_t want_value = (int64_t)(want), got_value = (int64_t)(got);                  \
		if (want_value != got_value) {                                                     \
			printf("# %s:%d: %s: expected %" PRId64 " (0x%" PRIx64 "), got %" PRId64   \
			       " (0x%" PRIx64 ")\n",                                               \
			       __FILE__, __LINE__, #got, want_value, (uint64_t)want_value,         \
			       got_value, (uint64_t)got_value);                                    \
			tap_case_failed = true;                                                    \
		}                                                                                  \
	} while (0)

#define EXPECT_STR(want, got)                                                                      \
	do {                                                                                       \
		const char *want_text = (want), *got_text = (got);                                 \
		if (strcmp(want_text, got_text) != 0) {                                            \
			printf("# %s:%d: %s: expected \"%s\", got \"%s\"\n", __FILE__, __LINE__,   \
			       #got, want_text, got_text);                                         \
			tap_case_failed = true;                                                    \
		}                                                                                  \
	} while (0)

#endif
