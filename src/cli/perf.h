/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parts of `weft perf`: its options, and the report of what perf/ measured. Main thread.
 */
#ifndef WEFT_CLI_PERF_H
#define WEFT_CLI_PERF_H

#include "perf/perf.h"

/* perf_report.c */
void perf_report_text(const struct perf_options *options, const struct perf_result *result);
void perf_report_json(const struct perf_options *options, const struct perf_result *result);
const char *perf_mode_name(const struct perf_options *options);
/* perf_report_paths.c: nothing without several paths. json is a json_t of an object. */
void perf_report_paths_text(const struct perf_options *options, const struct perf_result *result);
struct json_t;
void perf_report_paths_json(const struct perf_options *options, const struct perf_result *result,
			    struct json_t *root);

/* perf_args.c. 0: go on; 1: exit with *ret_exit (help, or a mistake that was explained). */
struct perf_args {
	struct perf_options options;
	bool is_json;
	bool is_quiet;
};
int perf_args_parse(int argc, char **argv, struct perf_args *ret_args, int *ret_exit);

#endif
