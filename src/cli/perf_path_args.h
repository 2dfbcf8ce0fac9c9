/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The options of `weft perf` that name paths and targets and define how the paths are used. Any of
 * these options sends the load through the multipath engine; without them, each controller is used
 * by itself.
 */
#ifndef WEFT_CLI_PERF_PATH_ARGS_H
#define WEFT_CLI_PERF_PATH_ARGS_H

#include "cli/connect_args.h"
#include "cli/timeout_args.h"
#include "perf/perf.h"

struct perf_path_args {
	struct perf_mpath_options *options; /* the result */
	const char *paths[MPATH_PATHS_MAX];
	unsigned path_count;
	struct timeout_options timeouts;
	char keep_alive[32]; /* -k as an argument of --set */
};

extern const struct cli_option perf_path_options[]; /* fill a struct perf_path_args */

void perf_path_args_init(struct perf_path_args *args, struct perf_mpath_options *options);
/* Overrides the profile's keep alive time-out with -k. 0, or -1 after a message. */
int perf_path_args_keep_alive(struct perf_path_args *args, uint32_t kato_ms);
/* Resolves the paths. CLI_OK, or the exit status after a message. */
int perf_path_args_finish(struct perf_path_args *args, const struct connect_options *connect);

#endif
