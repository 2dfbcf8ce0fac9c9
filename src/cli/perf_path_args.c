/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parses the options of `weft perf` that name paths and targets. Main thread. Paths of --path
 * belong to the subsystem of -n, which may come later on the command line, so they are resolved at
 * the end. Paths of --target are resolved at once, each for its own subsystem.
 */
#include "cli/perf_path_args.h"

#include "base/text.h"
#include "cli/cli.h"
#include "wire/nqn.h"
#include "wire/nvme_tcp.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COMMAND         "perf"
#define PATH_TEXT_BYTES 300
#define HEDGE_HUNDREDTH 100

void perf_path_args_init(struct perf_path_args *args, struct perf_mpath_options *options)
{
	memset(args, 0, sizeof(*args));
	args->options = options;
	timeout_args_init(&args->timeouts, COMMAND);
}

/* Returns the index of the target with this NQN, added if missing; -1 after a message. */
static int target_index(struct perf_mpath_options *options, const char *nqn)
{
	const char *problem = nqn_problem(nqn);
	unsigned i;

	if (problem != NULL) {
		cli_usage_error(COMMAND, "the subsystem NQN \"%s\" %s", nqn, problem);
		return -1;
	}
	for (i = 0; i < options->target_count; i++) {
		if (strcmp(options->nqns[i], nqn) == 0)
			return (int)i;
	}
	if (i == PERF_TARGETS_MAX) {
		cli_usage_error(COMMAND, "more than %u targets", PERF_TARGETS_MAX);
		return -1;
	}
	text_copy(options->nqns[i], sizeof(options->nqns[i]), nqn);
	options->target_count++;
	return (int)i;
}

/* Ignores a path that the target already has. */
static int path_add(struct perf_mpath_options *options, unsigned target, const char *text)
{
	unsigned of_target = 0;
	struct host_addr addr = {.transport = NULL}; /* set by perf_path_args_finish */

	if (connect_args_resolve(text, NVME_TCP_DEFAULT_PORT, &addr.net) != 0) {
		cli_usage_error(COMMAND, "cannot find the address of \"%s\"; a path is ADDR:PORT",
				text);
		return -1;
	}
	for (unsigned i = 0; i < options->path_count; i++) {
		const struct perf_path_option *path = &options->paths[i];

		if (path->target != target)
			continue;
		if (host_addr_same(&path->addr, &addr))
			return 0;
		of_target++;
	}
	if (options->path_count == PERF_PATHS_MAX || of_target == MPATH_PATHS_MAX) {
		cli_usage_error(COMMAND, "more than %u paths to one target, or %u to all",
				MPATH_PATHS_MAX, PERF_PATHS_MAX);
		return -1;
	}
	options->paths[options->path_count++] =
		(struct perf_path_option){.target = target, .addr = addr};
	return 0;
}

/* ---- options -------------------------------------------------------------------------------- */

/* Any of these options sends the load through the multipath engine. */
static struct perf_mpath_options *options_use(struct perf_path_args *args)
{
	args->options->is_used = true;
	return args->options;
}

static int path_take(void *to, const struct cli_given *given)
{
	struct perf_path_args *args = to;

	options_use(args);
	if (args->path_count == MPATH_PATHS_MAX) {
		cli_usage_error(COMMAND, "more than %u paths", MPATH_PATHS_MAX);
		return -1;
	}
	args->paths[args->path_count++] = given->value;
	return 0;
}

/* NQN@ADDR:PORT+ADDR:PORT... An NQN may contain an @, an address does not. */
static int target_take(void *to, const struct cli_given *given)
{
	struct perf_mpath_options *options = options_use(to);
	const char *at = strrchr(given->value, '@');
	char nqn[NVME_NQN_BYTES];
	int target;

	if (at == NULL || at == given->value || at[1] == '\0' ||
	    (size_t)(at - given->value) >= sizeof(nqn))
		return cli_given_error(given, "must be NQN@ADDR:PORT[+ADDR:PORT...], not \"%s\"",
				       given->value);
	text_copy(nqn, (size_t)(at - given->value) + 1, given->value);
	target = target_index(options, nqn);
	for (const char *from = at + 1; target >= 0;) {
		size_t len = strcspn(from, "+");
		char text[PATH_TEXT_BYTES];

		text_copy(text, len + 1 < sizeof(text) ? len + 1 : sizeof(text), from);
		if (path_add(options, (unsigned)target, text) != 0)
			return -1;
		if (from[len] == '\0')
			return 0;
		from += len + 1;
	}
	return -1;
}

static int policy_take(void *to, const struct cli_given *given)
{
	struct perf_mpath_options *options = options_use(to);

	return path_policy_parse(given->value, &options->policy) == 0 ? 0 : cli_words_error(given);
}

static int profile_take(void *to, const struct cli_given *given)
{
	struct perf_path_args *args = to;

	options_use(args);
	return timeout_profile_take(&args->timeouts, given);
}

static int set_take(void *to, const struct cli_given *given)
{
	struct perf_path_args *args = to;

	options_use(args);
	return timeout_set_take(&args->timeouts, given);
}

static int hedge_take(void *to, const struct cli_given *given)
{
	struct perf_mpath_options *options = options_use(to);
	char *end;
	double percent = strtod(given->value, &end);
	double hundredths = percent * HEDGE_HUNDREDTH + 0.5;

	if (end == given->value || *end != '\0' || !(hundredths >= 1 && hundredths < 10000))
		return cli_given_error(given, "must be a percentile such as 99 or 99.9, not \"%s\"",
				       given->value);
	options->hedge.percentile = (uint32_t)hundredths;
	return 0;
}

static int hedge_extra_take(void *to, const struct cli_given *given)
{
	struct perf_mpath_options *options = options_use(to);
	uint64_t percent = 0;
	int res = cli_given_number(given, 1, 100, &percent);

	options->hedge.extra_percent = (uint32_t)percent;
	return res;
}

const struct cli_option perf_path_options[] = {
	{"path", 0, "ADDR[:PORT]",
	 "a path to the subsystem of -n, instead of -a and -s; repeatable", .take = path_take},
	{"target", 0, "NQN@ADDR[:PORT][+ADDR[:PORT]]...",
	 "a subsystem and its paths; repeatable: each subsystem gets the load",
	 .take = target_take},
	{"policy", 'p', "POLICY", "policy that chooses the path: {words} (queue-depth)",
	 CLI_POLICIES, .take = policy_take},
	{"profile", 0, "PROFILE", "time-outs: {words}; see explain-timeouts", CLI_PROFILES,
	 .take = profile_take},
	{"set", 0, "NAME=VALUE", "change one time-out; repeatable", .take = set_take},
	{"hedge", 0, "PERCENTILE",
	 "send a read slower than this percentile on a second path too: 99, 99.9 (off)",
	 .take = hedge_take},
	{"hedge-extra", 0, "PERCENT", "limit of extra reads, percent of all reads (5)",
	 .take = hedge_extra_take},
	{NULL},
};

/* ---- after all options --------------------------------------------------------------------- */

int perf_path_args_keep_alive(struct perf_path_args *args, uint32_t kato_ms)
{
	snprintf(args->keep_alive, sizeof(args->keep_alive), "keep-alive=%u", kato_ms);
	return timeout_args_set(&args->timeouts, args->keep_alive);
}

/* Adds the paths to the subsystem of -n: those of --path, or the one of -a and -s. */
static int own_paths_add(const struct perf_path_args *args, const struct connect_options *connect,
			 struct perf_mpath_options *options)
{
	int target = target_index(options, connect->config.subsystem_nqn);

	if (target < 0)
		return -1;
	for (unsigned i = 0; i < args->path_count; i++) {
		if (path_add(options, (unsigned)target, args->paths[i]) != 0)
			return -1;
	}
	if (args->path_count == 0)
		options->paths[options->path_count++] = (struct perf_path_option){
			.target = (unsigned)target, .addr.net = connect->config.addr.net};
	return 0;
}

int perf_path_args_finish(struct perf_path_args *args, const struct connect_options *connect)
{
	struct perf_mpath_options *options = args->options;

	options->profile = args->timeouts.profile;
	if (!options->is_used)
		return CLI_OK;
	if (timeout_args_finish(&args->timeouts, &options->timeouts) != 0)
		return CLI_USAGE;
	if ((args->path_count > 0 || options->target_count == 0) &&
	    own_paths_add(args, connect, options) != 0)
		return CLI_USAGE;
	/* -t may follow the paths on the command line. */
	for (unsigned i = 0; i < options->path_count; i++)
		options->paths[i].addr.transport = connect->config.addr.transport;
	return CLI_OK;
}
