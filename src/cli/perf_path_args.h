/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The flags of `weft perf` that name paths and targets and say how the paths are used. Any of them
 * makes the load go through the multipath engine, else it is one controller after the other.
 */
#ifndef WEFT_CLI_PERF_PATH_ARGS_H
#define WEFT_CLI_PERF_PATH_ARGS_H

#include "cli/connect_args.h"
#include "cli/timeout_args.h"
#include "perf/perf.h"

enum perf_path_flag {
	PERF_FLAG_PATH = 512,
	PERF_FLAG_TARGET,
	PERF_FLAG_PROFILE,
	PERF_FLAG_SET,
	PERF_FLAG_HEDGE,
	PERF_FLAG_HEDGE_EXTRA,
};

#define PERF_PATH_ARGS_SHORT "p:"
/* clang-format off */
#define PERF_PATH_ARGS_LONG                                                                        \
	{"path", required_argument, NULL, PERF_FLAG_PATH},                                         \
	{"target", required_argument, NULL, PERF_FLAG_TARGET},                                     \
	{"policy", required_argument, NULL, 'p'},                                                  \
	{"profile", required_argument, NULL, PERF_FLAG_PROFILE},                                   \
	{"set", required_argument, NULL, PERF_FLAG_SET},                                           \
	{"hedge", required_argument, NULL, PERF_FLAG_HEDGE},                                       \
	{"hedge-extra", required_argument, NULL, PERF_FLAG_HEDGE_EXTRA}
/* clang-format on */

#define PERF_PATH_ARGS_HELP                                                                        \
	"      --path ADDR[:PORT]    a path to the subsystem of -n, instead of -a and -s; may be " \
	"repeated\n"                                                                               \
	"      --target NQN@ADDR[:PORT][+ADDR[:PORT]]...\n"                                        \
	"                            a subsystem and its paths; may be repeated, all get the "     \
	"load\n"                                                                                   \
	"  -p, --policy POLICY       which path: numa, round-robin, queue-depth, latency "         \
	"(queue-depth)\n"                                                                          \
	"      --profile PROFILE     time-outs: default, training or database\n"                   \
	"      --set NAME=VALUE      change one time-out; may be repeated\n"                       \
	"      --hedge PERCENTILE    a read slower than this one of its like is sent on a second " \
	"path\n"                                                                                   \
	"                            too: 99, 99.9 (off)\n"                                        \
	"      --hedge-extra PERCENT most extra reads (5)\n"

struct perf_path_args {
	const char *paths[MPATH_PATHS_MAX];
	unsigned path_count;
	struct timeout_options timeouts;
	char keep_alive[32]; /* -k, as --set takes it */
};

void perf_path_args_init(struct perf_path_args *args);
/* 0; 1: not one of ours; -1 after a message. */
int perf_path_args_take(struct perf_path_args *args, struct perf_mpath_options *options, int c,
			const char *value);
/* -k is over what the profile says. 0, or -1 after a message. */
int perf_path_args_keep_alive(struct perf_path_args *args, uint32_t kato_ms);
/* Resolves the paths. CLI_OK, or the exit status after a message. */
int perf_path_args_finish(struct perf_path_args *args, const struct connect_options *connect,
			  struct perf_mpath_options *options);

#endif
