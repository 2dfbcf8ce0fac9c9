/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The flags of `weft perf`. Main thread. What can be judged without the namespace is judged here;
 * the rest in perf/run.c once its size and block size are known.
 */
#include "base/clock.h"
#include "base/text.h"
#include "cli/cli.h"
#include "cli/connect_args.h"
#include "cli/options.h"
#include "cli/perf.h"
#include "cli/perf_path_args.h"
#include "perf/pace.h"
#include "wire/nvme_tcp.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>

#define DEPTH_MAX 65534
#define CTRLS_MAX 65519 /* that one subsystem can have */

enum perf_flag {
	FLAG_NSID = 256,
	FLAG_RW,
	FLAG_RWMIXREAD,
	FLAG_BS,
	FLAG_DEPTH,
	FLAG_TIME,
	FLAG_BYTES,
	FLAG_SIZE,
	FLAG_OFFSET,
	FLAG_WARMUP,
	FLAG_SEED,
	FLAG_CPU,
	FLAG_VERIFY,
	FLAG_JSON,
	FLAG_QUIET,
	FLAG_NO_SPIN,
	FLAG_RATE,
	FLAG_CONTROLLERS,
	FLAG_IDLE_CONTROLLERS,
	FLAG_NAMESPACES,
	FLAG_WATCH_PID,
};

static const struct option long_options[] = {
	CONNECT_ARGS_LONG,
	PERF_PATH_ARGS_LONG,
	{"nsid", required_argument, NULL, FLAG_NSID},
	{"rw", required_argument, NULL, FLAG_RW},
	{"rwmixread", required_argument, NULL, FLAG_RWMIXREAD},
	{"bs", required_argument, NULL, FLAG_BS},
	{"depth", required_argument, NULL, FLAG_DEPTH},
	{"time", required_argument, NULL, FLAG_TIME},
	{"bytes", required_argument, NULL, FLAG_BYTES},
	{"size", required_argument, NULL, FLAG_SIZE},
	{"offset", required_argument, NULL, FLAG_OFFSET},
	{"warmup", required_argument, NULL, FLAG_WARMUP},
	{"seed", required_argument, NULL, FLAG_SEED},
	{"cpu", required_argument, NULL, FLAG_CPU},
	{"verify", no_argument, NULL, FLAG_VERIFY},
	{"json", no_argument, NULL, FLAG_JSON},
	{"quiet", no_argument, NULL, FLAG_QUIET},
	{"no-spin", no_argument, NULL, FLAG_NO_SPIN},
	{"rate", required_argument, NULL, FLAG_RATE},
	{"controllers", required_argument, NULL, FLAG_CONTROLLERS},
	{"idle-controllers", required_argument, NULL, FLAG_IDLE_CONTROLLERS},
	{"namespaces", required_argument, NULL, FLAG_NAMESPACES},
	{"watch-pid", required_argument, NULL, FLAG_WATCH_PID},
	{"help", no_argument, NULL, 'h'},
	{0},
};

const struct cli_options perf_cli_options = {CONNECT_ARGS_SHORT PERF_PATH_ARGS_SHORT "h",
					     long_options};

static void help_print(void)
{
	printf("Usage: weft perf [OPTION]...\n\n"
	       "Loads a namespace over NVMe/TCP and measures it. Writing destroys its data.\n\n");
	printf(CONNECT_ARGS_HELP, NVME_TCP_DEFAULT_PORT, CLI_DEFAULT_NQN);
	printf(PERF_PATH_ARGS_HELP);
	printf("  -i, --queues N            I/O queues, also --nr-io-queues (1)\n"
	       "  -Q, --queue-size N        entries per queue (128, or what the depth needs)\n"
	       "      --controllers N       controllers that carry the load, each with its queues "
	       "(1)\n"
	       "      --idle-controllers N  others that are connected and never used (0)\n"
	       "      --nsid N              namespace (1)\n"
	       "      --namespaces N        that many from --nsid on, one at random per command "
	       "(1)\n");
	printf("      --rw MODE             read, write, randread, randwrite, rw, randrw "
	       "(randread)\n"
	       "      --rwmixread PERCENT   reads in rw and randrw (70)\n"
	       "      --bs SIZE             bytes per command (4k)\n"
	       "      --depth N             commands in flight per queue (32)\n"
	       "      --rate N[k|M]         commands per second over all queues, by a timetable; "
	       "latency\n"
	       "                            counts from the time planned (as many as possible)\n"
	       "      --time DURATION       how long: 10s, 1.5s, 500ms, 2m (10s unless --bytes)\n"
	       "      --bytes SIZE          how much: 256M\n"
	       "      --size SIZE           size of the region used (to the end)\n"
	       "      --offset SIZE         where it begins (0)\n"
	       "      --warmup DURATION     run first without counting (0)\n"
	       "      --verify              stamp every block written, check every block read;\n"
	       "                            what was written is read back at the end\n"
	       "      --seed N              of the random choices (1)\n"
	       "      --cpu N               run on this CPU (any)\n"
	       "      --watch-pid PID       tell the CPU time of this process as well\n"
	       "      --no-spin             sleep as soon as there is nothing to do (wait busily "
	       "for "
	       "up to\n"
	       "                            1000 us, so as not to measure its own wake-ups)\n"
	       "      --json                the result as JSON\n"
	       "      --quiet               no live progress\n"
	       "  -h, --help                this text\n\n"
	       "Exit status: 0 all well, 1 I/O or verify errors or no connection, 2 wrong "
	       "usage.\n\n"
	       "Examples:\n"
	       "  weft perf --rw randread --depth 64 --time 5s\n"
	       "  weft perf -a 192.0.2.7 -s 4420 -n nqn.2026-11.io.weft:default --rw write \\\n"
	       "            --bs 128k --bytes 256M --verify\n");
}

static int mode_take(struct perf_options *options, const char *value)
{
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
		if (strcmp(value, modes[i].name) != 0)
			continue;
		options->is_random = modes[i].is_random;
		options->read_percent =
			modes[i].read_percent >= 0 ? (unsigned)modes[i].read_percent : UINT32_MAX;
		return 0;
	}
	cli_value_error("perf", "rw", value);
	return -1;
}

static int number_take(const char *flag, const char *value, uint64_t min, uint64_t max,
		       uint64_t *ret_number)
{
	if (text_parse_u64(value, max, ret_number) == 0 && *ret_number >= min)
		return 0;
	cli_usage_error("perf", "%s wants a number from %lu to %lu, not \"%s\"", flag,
			(unsigned long)min, (unsigned long)max, value);
	return -1;
}

static int size_take(const char *flag, const char *value, uint64_t max, uint64_t *ret_bytes)
{
	if (text_parse_size(value, ret_bytes) == 0 && *ret_bytes <= max)
		return 0;
	cli_usage_error("perf", "%s wants a size such as 4k or 256M, not \"%s\"", flag, value);
	return -1;
}

static int duration_take(const char *flag, const char *value, uint64_t *ret_ms)
{
	if (text_parse_duration_ms(value, ret_ms) == 0 && *ret_ms < UINT64_MAX / NS_PER_MS / 4)
		return 0;
	cli_usage_error("perf", "%s wants a duration such as 10s, 1.5s or 500ms, not \"%s\"", flag,
			value);
	return -1;
}

/* 250, 250k or 1M: thousands and millions, because it is a rate and not a size. */
static int rate_take(const char *value, uint64_t *ret_rate)
{
	size_t len = strlen(value);
	uint64_t factor = 1;
	char digits[16];

	if (len > 0 && (value[len - 1] == 'k' || value[len - 1] == 'K'))
		factor = 1000;
	else if (len > 0 && (value[len - 1] == 'm' || value[len - 1] == 'M'))
		factor = 1000000;
	len -= factor > 1;
	if (len < sizeof(digits)) {
		memcpy(digits, value, len);
		digits[len] = '\0';
		if (text_parse_u64(digits, PERF_RATE_MAX / factor, ret_rate) == 0 &&
		    *ret_rate > 0) {
			*ret_rate *= factor;
			return 0;
		}
	}
	cli_usage_error("perf",
			"--rate wants commands per second such as 5000 or 200k, up to %u, not "
			"\"%s\"",
			PERF_RATE_MAX, value);
	return -1;
}

/* Options with a value that is a size or a duration. 1: not one of them. */
static int amount_take(struct perf_options *options, int flag, const char *value)
{
	uint64_t number = 0;
	int res;

	switch (flag) {
	case FLAG_BS:
		res = size_take("--bs", value, UINT32_MAX / 2, &number);
		options->io_bytes = (uint32_t)number;
		return res;
	case FLAG_TIME:
		return duration_take("--time", value, &options->time_ms);
	case FLAG_WARMUP:
		return duration_take("--warmup", value, &options->warmup_ms);
	case FLAG_BYTES:
		return size_take("--bytes", value, UINT64_MAX, &options->bytes);
	case FLAG_SIZE:
		return size_take("--size", value, UINT64_MAX, &options->region_bytes);
	case FLAG_RATE:
		return rate_take(value, &options->rate);
	case FLAG_OFFSET:
		return size_take("--offset", value, UINT64_MAX, &options->region_offset);
	default:
		return 1;
	}
}

/* How many of something. 1: not one of them. */
static int count_take(struct perf_options *options, int flag, const char *value)
{
	uint64_t number = 0;
	int res;

	switch (flag) {
	case FLAG_CONTROLLERS:
		res = number_take("--controllers", value, 1, CTRLS_MAX, &number);
		options->ctrls = (unsigned)number;
		return res;
	case FLAG_IDLE_CONTROLLERS:
		res = number_take("--idle-controllers", value, 0, CTRLS_MAX, &number);
		options->idle_ctrls = (unsigned)number;
		return res;
	case FLAG_NAMESPACES:
		res = number_take("--namespaces", value, 1, 0xfffffffe, &number);
		options->namespaces = (uint32_t)number;
		return res;
	case FLAG_WATCH_PID:
		res = number_take("--watch-pid", value, 1, INT32_MAX, &number);
		options->watch_pid = (pid_t)number;
		return res;
	default:
		return 1;
	}
}

/* Options with a value that is a number or a word. 1: not one of them. */
static int number_option_take(struct perf_options *options, int flag, const char *value,
			      unsigned *mix_percent)
{
	uint64_t number = 0;
	int res;

	switch (flag) {
	case FLAG_NSID:
		res = number_take("--nsid", value, 1, 0xfffffffe, &number);
		options->nsid = (uint32_t)number;
		return res;
	case FLAG_RW:
		return mode_take(options, value);
	case FLAG_RWMIXREAD:
		res = number_take("--rwmixread", value, 1, 99, &number);
		*mix_percent = (unsigned)number;
		return res;
	case FLAG_DEPTH:
		res = number_take("--depth", value, 1, DEPTH_MAX, &number);
		options->depth = (unsigned)number;
		return res;
	case FLAG_SEED:
		return number_take("--seed", value, 0, UINT64_MAX, &options->seed);
	case FLAG_CPU:
		res = number_take("--cpu", value, 0, CPU_SETSIZE - 1, &number);
		options->cpu = (int)number;
		return res;
	default:
		return 1;
	}
}

/* 1: not one of them. */
static int switch_take(struct perf_args *args, int flag)
{
	switch (flag) {
	case FLAG_VERIFY:
		args->options.wants_verify = true;
		return 0;
	case FLAG_JSON:
		args->is_json = true;
		return 0;
	case FLAG_QUIET:
		args->is_quiet = true;
		return 0;
	case FLAG_NO_SPIN:
		args->options.spin_max_us = 0;
		return 0;
	default:
		return 1;
	}
}

/* Several paths do not go with everything. True after a message. */
static bool paths_refuse(const struct perf_options *options)
{
	if (!options->mpath.is_used)
		return false;
	if (options->idle_ctrls > 0) {
		cli_usage_error("perf", "--idle-controllers does not go with several paths");
		return true;
	}
	if (options->mpath.target_count > 1 && options->wants_verify) {
		cli_usage_error("perf", "--verify keeps track of one target, not of several");
		return true;
	}
	return false;
}

static int args_finish(struct perf_args *args, struct connect_options *connect,
		       struct perf_path_args *paths, unsigned mix_percent, int *ret_exit)
{
	struct perf_options *options = &args->options;

	*ret_exit = CLI_USAGE;
	if (options->read_percent == UINT32_MAX)
		options->read_percent = mix_percent;
	if (options->time_ms == 0 && options->bytes == 0)
		options->time_ms = 10000;
	if (connect->config.io_queue_size == 1) {
		cli_usage_error("perf", "--queue-size must be 2 or more");
		return 1;
	}
	if (options->io_bytes == 0) {
		cli_usage_error("perf", "--bs cannot be 0");
		return 1;
	}
	if (options->namespaces > 1 && options->wants_verify) {
		cli_usage_error("perf", "--verify keeps track of one namespace, not of several");
		return 1;
	}
	if (options->namespaces - 1 > 0xfffffffe - options->nsid) {
		cli_usage_error("perf", "there are no %u namespaces from %u on",
				options->namespaces, options->nsid);
		return 1;
	}
	*ret_exit = CLI_FAILED;
	if (connect_args_finish(connect) != 0)
		return 1;
	options->host = connect->config;
	*ret_exit = perf_path_args_finish(paths, connect, &options->mpath);
	if (*ret_exit == CLI_OK && paths_refuse(options))
		*ret_exit = CLI_USAGE;
	return *ret_exit == CLI_OK ? 0 : 1;
}

int perf_args_parse(int argc, char **argv, struct perf_args *ret_args, int *ret_exit)
{
	struct perf_options *options = &ret_args->options;
	struct connect_options connect;
	struct perf_path_args paths;
	unsigned mix_percent = 70;
	int c;

	memset(ret_args, 0, sizeof(*ret_args));
	perf_options_init(options);
	options->is_random = true;
	connect_args_init(&connect, "perf", CLI_DEFAULT_NQN, NVME_TCP_DEFAULT_PORT, 1);
	perf_path_args_init(&paths);
	options->mpath.policy = PATH_POLICY_QUEUE_DEPTH;
	*ret_exit = CLI_USAGE;
	while ((c = cli_getopt("perf", &perf_cli_options, argc, argv)) != -1) {
		int taken = connect_args_take(&connect, c, optarg);
		int res;

		if (taken > 0 && c == 'k')
			taken = perf_path_args_keep_alive(&paths, connect.config.kato_ms) == 0 ? 1
											       : -1;
		if (taken < 0)
			return 1;
		if (taken > 0)
			continue;
		if (c == 'h') {
			help_print();
			*ret_exit = CLI_OK;
			return 1;
		}
		res = perf_path_args_take(&paths, &options->mpath, c, optarg);
		if (res == 1)
			res = switch_take(ret_args, c);
		if (res == 1)
			res = amount_take(options, c, optarg);
		if (res == 1)
			res = count_take(options, c, optarg);
		if (res == 1)
			res = number_option_take(options, c, optarg, &mix_percent);
		if (res == 1)
			cli_usage_hint("perf");
		if (res != 0)
			return 1;
	}
	if (optind < argc) {
		cli_usage_error("perf", "unexpected argument \"%s\"", argv[optind]);
		return 1;
	}
	return args_finish(ret_args, &connect, &paths, mix_percent, ret_exit);
}
