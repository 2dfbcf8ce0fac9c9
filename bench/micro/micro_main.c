/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `micro`: runs the micro measurements and prints them, as a table with the spread or as JSON.
 * The median of a few rounds is the figure; the least and the greatest are printed beside it.
 */
#include "micro.h"

#include "base/check.h"
#include "base/clock.h"
#include "base/list.h"
#include "base/log.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROUNDS         7
#define ROUND_NS       (30 * NS_PER_MS)
#define QUICK_ROUNDS   2
#define QUICK_ROUND_NS (1 * NS_PER_MS)

static const struct {
	const char *name;
	void (*run)(struct micro *micro);
} groups[] = {
	{"pdu", micro_pdu},     {"crc32c", micro_crc},        {"reactor", micro_reactor},
	{"posts", micro_posts}, {"dispatch", micro_dispatch},
};

static const char *const unit_names[] = {
	[MICRO_NS] = "ns", [MICRO_GB_PER_S] = "GB/s", [MICRO_PER_SECOND] = "/s"};

static int value_compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double value_of(const struct micro_what *what, uint64_t count, uint64_t ns)
{
	double each_ns = (double)(ns > 0 ? ns : 1) / (double)count;

	if (what->unit == MICRO_GB_PER_S)
		return (double)what->bytes / each_ns;
	return what->unit == MICRO_PER_SECOND ? 1e9 / each_ns : each_ns;
}

void micro_measure(struct micro *micro, const struct micro_what *what, micro_fn fn, void *arg)
{
	struct micro_row *row = &micro->rows[micro->row_count++];
	uint64_t count = 16, ns;

	CHECK(micro->row_count <= MICRO_ROWS_MAX);
	/* The calls that warm the caches also determine how many fill a round. */
	while ((ns = fn(arg, count)) < micro->round_ns / 4 && count < 1ull << 40)
		count *= ns < micro->round_ns / 64 ? 8 : 2;
	count = (uint64_t)((double)count * (double)micro->round_ns / (double)(ns + 1)) + 1;
	row->group = what->group;
	row->unit = what->unit;
	snprintf(row->name, sizeof(row->name), "%s", what->name);
	row->rounds = micro->rounds;
	for (unsigned i = 0; i < micro->rounds; i++)
		row->values[i] = value_of(what, count, fn(arg, count));
	qsort(row->values, row->rounds, sizeof(row->values[0]), value_compare);
}

static double row_median(const struct micro_row *row)
{
	return (row->values[(row->rounds - 1) / 2] + row->values[row->rounds / 2]) / 2;
}

static void print_table(const struct micro *micro)
{
	printf("%-10s %-34s %14s %-5s %s\n", "", "", "median", "", "least .. greatest");
	for (unsigned i = 0; i < micro->row_count; i++) {
		const struct micro_row *row = &micro->rows[i];
		int digits = row->unit == MICRO_PER_SECOND ? 0 : 1;

		printf("%-10s %-34s %14.*f %-5s %.*f .. %.*f\n", row->group, row->name, digits,
		       row_median(row), unit_names[row->unit], digits, row->values[0], digits,
		       row->values[row->rounds - 1]);
	}
}

static void print_json(const struct micro *micro)
{
	printf("{\"rounds\": %u, \"round_ms\": %.1f, \"rows\": [", micro->rounds,
	       (double)micro->round_ns / 1e6);
	for (unsigned i = 0; i < micro->row_count; i++) {
		const struct micro_row *row = &micro->rows[i];

		printf("%s\n {\"group\": \"%s\", \"name\": \"%s\", \"unit\": \"%s\", "
		       "\"median\": %.4g, \"min\": %.4g, \"max\": %.4g}",
		       i > 0 ? "," : "", row->group, row->name, unit_names[row->unit],
		       row_median(row), row->values[0], row->values[row->rounds - 1]);
	}
	printf("\n]}\n");
}

static void help_print(void)
{
	printf("Usage: micro [--json] [--quick] [GROUP]...\n\n"
	       "Measures the parts that a command passes, each alone and hot.\n\n"
	       "      --json     the result as JSON\n"
	       "      --quick    short rounds: shows that it runs, not how fast\n"
	       "  -h, --help     this text\n\nGroups:");
	for (size_t i = 0; i < ARRAY_LEN(groups); i++)
		printf(" %s", groups[i].name);
	printf(" (all)\n");
}

static bool is_chosen(char **names, int count, const char *name)
{
	for (int i = 0; i < count; i++)
		if (strcmp(names[i], name) == 0)
			return true;
	return count == 0;
}

static const char *find_unknown(char **names, int count)
{
	for (int i = 0; i < count; i++) {
		bool is_known = false;

		for (size_t group = 0; group < ARRAY_LEN(groups); group++)
			is_known |= strcmp(names[i], groups[group].name) == 0;
		if (!is_known)
			return names[i];
	}
	return NULL;
}

int main(int argc, char **argv)
{
	static const struct option options[] = {{"json", no_argument, NULL, 'j'},
						{"quick", no_argument, NULL, 'q'},
						{"help", no_argument, NULL, 'h'},
						{0}};
	static struct micro micro = {.rounds = ROUNDS, .round_ns = ROUND_NS};
	bool wants_json = false;
	int flag;

	while ((flag = getopt_long(argc, argv, "h", options, NULL)) != -1) {
		if (flag == 'h') {
			help_print();
			return 0;
		}
		if (flag == '?')
			return 2;
		if (flag == 'j')
			wants_json = true;
		if (flag == 'q') {
			micro.rounds = QUICK_ROUNDS;
			micro.round_ns = QUICK_ROUND_NS;
		}
	}
	if (find_unknown(argv + optind, argc - optind)) {
		fprintf(stderr, "micro: there is no group \"%s\"\n",
			find_unknown(argv + optind, argc - optind));
		return 2;
	}
	log_set_level(LOG_LEVEL_ERROR);
	for (size_t i = 0; i < ARRAY_LEN(groups); i++)
		if (is_chosen(argv + optind, argc - optind, groups[i].name))
			groups[i].run(&micro);
	if (wants_json)
		print_json(&micro);
	else
		print_table(&micro);
	return 0;
}
