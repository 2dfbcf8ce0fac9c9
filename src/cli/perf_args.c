/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The options of `weft perf`. Main thread. Options that do not depend on the namespace are checked
 * here. perf/run.c checks the rest once the namespace's size and block size are known.
 */
#include "base/check.h"
#include "base/text.h"
#include "cli/cli.h"
#include "cli/perf.h"
#include "perf/pace.h"
#include "wire/nvme_tcp.h"

#include <sched.h>
#include <string.h>

#define COMMAND   "perf"
#define DEPTH_MAX 65534
#define CTRLS_MAX 65519 /* limit of one subsystem */
#define NSID_MAX  0xfffffffe

static int mode_take(void *to, const struct cli_given *given)
{
	struct perf_args *args = to;
	static const struct {
		const char *name;
		bool is_random;
		int read_percent; /* -1: --rwmixread */
	} modes[] = {
		{"read", false, 100},   {"write", false, 0}, {"randread", true, 100},
		{"randwrite", true, 0}, {"rw", false, -1},   {"readwrite", false, -1},
		{"randrw", true, -1},
	};

	for (size_t i = 0; i < ARRAY_LEN(modes); i++) {
		if (strcmp(given->value, modes[i].name) != 0)
			continue;
		args->options.is_random = modes[i].is_random;
		args->options.read_percent =
			modes[i].read_percent >= 0 ? (unsigned)modes[i].read_percent : UINT32_MAX;
		return 0;
	}
	return cli_words_error(given);
}

static int block_take(void *to, const struct cli_given *given)
{
	struct perf_args *args = to;
	uint64_t bytes;

	if (text_parse_size(given->value, &bytes) != 0 || bytes == 0 || bytes > UINT32_MAX / 2)
		return cli_given_error(given, "must be a size such as 4k or 256M, not \"%s\"",
				       given->value);
	args->options.io_bytes = (uint32_t)bytes;
	return 0;
}

/* 250, 250k or 1M: k and M are powers of 1000, because the value is a rate and not a size. */
static int rate_take(void *to, const struct cli_given *given)
{
	struct perf_args *args = to;
	const char *value = given->value;
	size_t len = strlen(value);
	uint64_t rate = 0, factor = 1;
	char digits[16];

	if (len > 0 && (value[len - 1] == 'k' || value[len - 1] == 'K'))
		factor = 1000;
	else if (len > 0 && (value[len - 1] == 'm' || value[len - 1] == 'M'))
		factor = 1000000;
	len -= factor > 1;
	text_copy(digits, len < sizeof(digits) ? len + 1 : sizeof(digits), value);
	if (len >= sizeof(digits) || text_parse_u64(digits, PERF_RATE_MAX / factor, &rate) != 0 ||
	    rate == 0)
		return cli_given_error(
			given,
			"must be commands per second such as 5000 or 200k, up to %u, "
			"not \"%s\"",
			PERF_RATE_MAX, value);
	args->options.rate = rate * factor;
	return 0;
}

static int cpu_take(void *to, const struct cli_given *given)
{
	struct perf_args *args = to;
	uint64_t cpu = 0;
	int res = cli_given_number(given, 0, CPU_SETSIZE - 1, &cpu);

	args->options.cpu = (int)cpu;
	return res;
}

static int watch_pid_take(void *to, const struct cli_given *given)
{
	struct perf_args *args = to;
	uint64_t pid = 0;
	int res = cli_given_number(given, 1, INT32_MAX, &pid);

	args->options.watch_pid = (pid_t)pid;
	return res;
}

static int no_spin_take(void *to, const struct cli_given *given)
{
	struct perf_args *args = to;

	args->options.spin_max_us = 0;
	return 0;
}

static int keep_alive_take(void *to, const struct cli_given *given)
{
	struct perf_args *args = to;

	if (connect_keep_alive_take(&args->connect, given) != 0)
		return -1;
	return perf_path_args_keep_alive(&args->paths, args->connect.config.kato_ms);
}

#define ARGS struct perf_args

static const struct cli_option queue_options[] = {
	{"keep-alive-tmo", 'k', "SEC", CONNECT_HELP_KATO, .take = keep_alive_take},
	{"queues", 'i', "N", CONNECT_HELP_QUEUES,
	 CLI_U32(ARGS, connect.config.io_queues, 1, CONNECT_QUEUES_MAX)},
	{"nr-io-queues", 0, "N", NULL,
	 CLI_U32(ARGS, connect.config.io_queues, 1, CONNECT_QUEUES_MAX)},
	{"queue-size", 'Q', "N", "entries per queue (128, or what the depth needs)",
	 CLI_U32(ARGS, connect.config.io_queue_size, 2, UINT16_MAX)},
	{"controllers", 0, "N", "controllers that carry the load, each with its queues (1)",
	 CLI_U32(ARGS, options.ctrls, 1, CTRLS_MAX)},
	{"idle-controllers", 0, "N", "additional controllers that connect and stay idle (0)",
	 CLI_U32(ARGS, options.idle_ctrls, 0, CTRLS_MAX)},
	{NULL},
};

static const struct cli_option load_options[] = {
	{"nsid", 0, "N", "NSID of the namespace (1)", CLI_U32(ARGS, options.nsid, 1, NSID_MAX)},
	{"namespaces", 0, "N", "use N namespaces from --nsid on, one at random per command (1)",
	 CLI_U32(ARGS, options.namespaces, 1, NSID_MAX)},
	{"rw", 0, "MODE", "{words} (randread)", "read write randread randwrite rw randrw",
	 .take = mode_take},
	{"rwmixread", 0, "PERCENT", "reads in rw and randrw (70)",
	 CLI_U32(ARGS, mix_percent, 1, 99)},
	{"bs", 0, "SIZE", "bytes per command (4k)", .take = block_take},
	{"depth", 0, "N", "commands in flight per queue (32)",
	 CLI_U32(ARGS, options.depth, 1, DEPTH_MAX)},
	{"rate", 0, "N[k|M]",
	 "commands per second over all queues, on a fixed schedule; latency counts from "
	 "the scheduled time (unlimited)",
	 .take = rate_take},
	{"time", 0, "DURATION", "run this long: 10s, 1.5s, 500ms, 2m (10s unless --bytes)",
	 CLI_DURATION(ARGS, options.time_ms, 0)},
	{"bytes", 0, "SIZE", "run until this amount is transferred: 256M",
	 CLI_SIZE(ARGS, options.bytes)},
	{"size", 0, "SIZE", "size of the region used (to the end)",
	 CLI_SIZE(ARGS, options.region_bytes)},
	{"offset", 0, "SIZE", "start of the region (0)", CLI_SIZE(ARGS, options.region_offset)},
	{"warmup", 0, "DURATION", "run this long before measuring (0)",
	 CLI_DURATION(ARGS, options.warmup_ms, 0)},
	{"verify", 0, NULL,
	 "stamp every block written, check every block read; written blocks are read back at the "
	 "end",
	 CLI_SWITCH(ARGS, options.wants_verify)},
	{"seed", 0, "N", "seed of the random numbers (1)",
	 CLI_U64(ARGS, options.seed, 0, UINT64_MAX)},
	{NULL},
};

static const struct cli_option run_options[] = {
	{"cpu", 0, "N", "run on this CPU (any)", .take = cpu_take},
	{"watch-pid", 0, "PID", "also report the CPU time of process PID", .take = watch_pid_take},
	{"no-spin", 0, NULL,
	 "sleep at once when idle (spin for up to " CLI_DIGITS(
		 PERF_SPIN_MAX_US) " us, to keep wake-ups out of the latency)",
	 .take = no_spin_take},
	{"json", 0, NULL, "print the result as JSON", CLI_SWITCH(ARGS, is_json)},
	{"quiet", 0, NULL, "no live progress", CLI_SWITCH(ARGS, is_quiet)},
	{NULL},
};

static const struct cli_group groups[] = {
	{"Target", connect_transport_options, offsetof(ARGS, connect)},
	{NULL, connect_where_options, offsetof(ARGS, connect)},
	{NULL, connect_host_options, offsetof(ARGS, connect)},
	{NULL, queue_options, 0},
	{"Several paths", perf_path_options, offsetof(ARGS, paths)},
	{"Load", load_options, 0},
	{"Run and report", run_options, 0},
};

const struct cli_command perf_command = {
	.name = COMMAND,
	.summary = "measure or verify a namespace: IOPS, bandwidth, latency",
	.usage = "[OPTION]...",
	.about = "Loads and measures a namespace over NVMe/TCP. Writing destroys the data of the\n"
		 "namespace.\n",
	.groups = groups,
	.group_count = ARRAY_LEN(groups),
	.notes = "Exit status: 0 success, 1 I/O or verify errors or no connection, 2 wrong usage.\n"
		 "\n"
		 "Examples:\n"
		 "  weft perf --rw randread --depth 64 --time 5s\n"
		 "  weft perf -a 192.0.2.7 -s 4420 -n nqn.2026-11.io.weft:default --rw write \\\n"
		 "            --bs 128k --bytes 256M --verify\n",
	.fn = cmd_perf,
};

/* Checks options that cannot be combined with several paths. True after a message. */
static bool paths_refuse(const struct perf_options *options)
{
	if (!options->mpath.is_used)
		return false;
	if (options->idle_ctrls > 0) {
		cli_usage_error("perf", "--idle-controllers cannot be used with several paths");
		return true;
	}
	if (options->mpath.target_count > 1 && options->wants_verify) {
		cli_usage_error("perf", "--verify works with one --target only");
		return true;
	}
	return false;
}

/* Checks options against each other, as far as they do not depend on the target. CLI_OK, or the
 * exit status after a message. */
static int args_agree(struct perf_options *options)
{
	if (options->time_ms == 0 && options->bytes == 0)
		options->time_ms = 10000;
	if (options->namespaces > 1 && options->wants_verify)
		return cli_usage_error(COMMAND, "--verify cannot be used with --namespaces");
	if (options->namespaces - 1 > NSID_MAX - options->nsid)
		return cli_usage_error(COMMAND,
				       "--namespaces %u from --nsid %u on exceeds the largest NSID",
				       options->namespaces, options->nsid);
	return CLI_OK;
}

static int args_finish(struct perf_args *args)
{
	struct perf_options *options = &args->options;
	int res;

	if (options->read_percent == UINT32_MAX)
		options->read_percent = args->mix_percent;
	res = args_agree(options);
	if (res != CLI_OK)
		return res;
	if (connect_args_finish(&args->connect) != 0)
		return CLI_FAILED;
	options->host = args->connect.config;
	res = perf_path_args_finish(&args->paths, &args->connect);
	return res == CLI_OK && paths_refuse(options) ? CLI_USAGE : res;
}

bool perf_args_parse(int argc, char **argv, struct perf_args *args, int *ret_exit)
{
	struct perf_options *options = &args->options;

	memset(args, 0, sizeof(*args));
	perf_options_init(options);
	options->is_random = true;
	options->mpath.policy = PATH_POLICY_QUEUE_DEPTH;
	args->mix_percent = 70;
	connect_args_init(&args->connect, COMMAND, CLI_DEFAULT_NQN, NVME_TCP_DEFAULT_PORT, 1);
	perf_path_args_init(&args->paths, &options->mpath);
	if (!cli_parse(&perf_command, argc, argv, args, ret_exit))
		return false;
	*ret_exit = args_finish(args);
	return *ret_exit == CLI_OK;
}
