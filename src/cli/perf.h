/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parts of `weft perf`: its options, and the report of what perf/ measured. Main thread.
 */
#ifndef WEFT_CLI_PERF_H
#define WEFT_CLI_PERF_H

#include "cli/perf_path_args.h"
#include "perf/perf.h"

/* perf_report.c */
void perf_report_text(const struct perf_options *options, const struct perf_result *result);
void perf_report_json(const struct perf_options *options, const struct perf_result *result);
const char *perf_mode_name(const struct perf_options *options);
/* perf_report_paths.c: print nothing when the load uses a single path. root is a json_t object. */
void perf_report_paths_text(const struct perf_options *options, const struct perf_result *result);
struct json_t;
void perf_report_paths_json(const struct perf_options *options, const struct perf_result *result,
			    struct json_t *root);

/* perf_args.c: the parsed options. */
struct perf_args {
	struct perf_options options;
	struct connect_options connect;
	struct perf_path_args paths;
	unsigned mix_percent; /* --rwmixread */
	bool is_json;
	bool is_quiet;
};
int cmd_perf(int argc, char **argv);
/* True to continue; false: the exit status is in *ret_exit. */
bool perf_args_parse(int argc, char **argv, struct perf_args *args, int *ret_exit);

#endif
