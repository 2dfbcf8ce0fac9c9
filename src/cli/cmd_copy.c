/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `weft copy`: reads which two ends, of which one at least is a namespace, and how fast, how safely
 * and how loudly it goes from one to the other; copy/ does the rest. What is wrong with a URL is
 * said when it is opened. Main thread.
 */
#include "base/text.h"
#include "cli/cli.h"
#include "cli/ns_args.h"
#include "cli/options.h"
#include "copy/copy.h"

#include <stdio.h>
#include <string.h>

#define COMMAND       "copy"
#define DEFAULT_DEPTH 16
#define DEFAULT_PIECE (1u << 20)
#define PIECE_UNIT    4096

enum long_only {
	OPTION_DEPTH = 256,
	OPTION_SIZE,
	OPTION_RATE,
	OPTION_RESUME,
	OPTION_VERIFY,
	OPTION_NO_SPARSE,
	OPTION_PROGRESS,
	OPTION_QUIET,
};

static void help_print(void)
{
	printf("Usage: weft copy [OPTION]... FROM TO\n\n"
	       "Copies a file or block device to a namespace, a namespace to a file, or one\n"
	       "namespace to another. A namespace is written\n\n"
	       "  nvme://ADDR[:PORT][,ADDR[:PORT]...]/NQN/NSID\n\n"
	       "with an address for each path to it (port 4420). - is standard input or output;\n"
	       "everything else is a file (./- for one of that name).\n\n");
	printf("      --resume JOURNAL      keep a journal in this file, and go on from where it\n"
	       "                            says; it is removed when the copy is done\n"
	       "      --verify              read both again and compare\n"
	       "      --rate BYTES          at most so many bytes a second (100M)\n"
	       "      --depth N             pieces under way at once (%u)\n"
	       "      --size BYTES          of one piece (1M)\n"
	       "      --no-sparse           write zeroes as data; without it they become holes\n"
	       "      --progress            a line every second, also without a terminal\n"
	       "      --quiet               only errors and warnings\n",
	       DEFAULT_DEPTH);
	printf(NS_ARGS_HELP);
	printf("  -h, --help                this text\n\n"
	       "Example:\n"
	       "  weft copy disk.img nvme://192.0.2.7,198.51.100.7/nqn.2026-11.io.weft:default/1 "
	       "\\\n"
	       "      --resume disk.journal --verify\n");
}

static int depth_take(struct copy_options *options, const char *value)
{
	uint64_t depth;

	if (text_parse_u64(value, COPY_DEPTH_MAX, &depth) != 0 || depth == 0) {
		cli_usage_error(COMMAND, "--depth wants a number from 1 to %u, not \"%s\"",
				COPY_DEPTH_MAX, value);
		return -1;
	}
	options->depth = (unsigned)depth;
	return 0;
}

static int size_take(struct copy_options *options, const char *value)
{
	uint64_t bytes;

	if (text_parse_size(value, &bytes) != 0 || bytes == 0 || bytes > COPY_PIECE_MAX ||
	    bytes % PIECE_UNIT != 0) {
		cli_usage_error(COMMAND, "--size wants a multiple of %u up to %uM, not \"%s\"",
				PIECE_UNIT, COPY_PIECE_MAX >> 20, value);
		return -1;
	}
	options->piece_bytes = (uint32_t)bytes;
	return 0;
}

/* 0, or -1 after a message. */
static int option_take(struct copy_options *options, int c, const char *value)
{
	int res;

	switch (c) {
	case OPTION_DEPTH:
		return depth_take(options, value);
	case OPTION_SIZE:
		return size_take(options, value);
	case OPTION_RATE:
		if (text_parse_size(value, &options->rate) == 0 && options->rate > 0)
			return 0;
		cli_usage_error(COMMAND, "--rate wants bytes a second (100M), not \"%s\"", value);
		return -1;
	case OPTION_RESUME:
		if (copy_stream_is_named(value)) {
			cli_usage_error(COMMAND, "--resume wants a file (./- for one named -)");
			return -1;
		}
		options->journal = value;
		return 0;
	case OPTION_VERIFY:
		options->does_verify = true;
		return 0;
	case OPTION_NO_SPARSE:
		options->is_sparse = false;
		return 0;
	case OPTION_PROGRESS:
		options->has_progress = true;
		return 0;
	case OPTION_QUIET:
		options->is_quiet = true;
		options->ns.is_quiet = true;
		return 0;
	default:
		break;
	}
	res = ns_args_take(&options->ns, c, value);
	if (res == 0)
		cli_usage_hint(COMMAND);
	return res == 1 ? 0 : -1;
}

/* A stream passes by once. */
static bool stream_fits(const struct copy_options *options)
{
	bool is_stdin = copy_stream_is_named(options->from);

	if (!is_stdin && !copy_stream_is_named(options->to))
		return true;
	if (options->journal != NULL)
		cli_usage_error(COMMAND, "--resume cannot go on in the middle of standard %s",
				is_stdin ? "input" : "output");
	else if (options->does_verify)
		cli_usage_error(COMMAND, "--verify cannot read standard %s again; copy %s a file",
				is_stdin ? "input" : "output", is_stdin ? "from" : "to");
	else
		return true;
	return false;
}

static bool ends_take(struct copy_options *options, int argc, char **argv)
{
	if (argc - optind != 2) {
		cli_usage_error(COMMAND, "say FROM and TO");
		return false;
	}
	options->from = argv[optind];
	options->to = argv[optind + 1];
	if (!ns_where_is_url(options->from) && !ns_where_is_url(options->to)) {
		cli_usage_error(COMMAND, "neither \"%s\" nor \"%s\" is a namespace (nvme://...)",
				options->from, options->to);
		return false;
	}
	return stream_fits(options);
}

static const struct option longs[] = {
	NS_ARGS_LONG,
	{"depth", required_argument, NULL, OPTION_DEPTH},
	{"size", required_argument, NULL, OPTION_SIZE},
	{"rate", required_argument, NULL, OPTION_RATE},
	{"resume", required_argument, NULL, OPTION_RESUME},
	{"verify", no_argument, NULL, OPTION_VERIFY},
	{"no-sparse", no_argument, NULL, OPTION_NO_SPARSE},
	{"progress", no_argument, NULL, OPTION_PROGRESS},
	{"quiet", no_argument, NULL, OPTION_QUIET},
	{"help", no_argument, NULL, 'h'},
	{NULL, 0, NULL, 0},
};

const struct cli_options copy_cli_options = {NS_ARGS_SHORT "h", longs};

static bool args_parse(int argc, char **argv, struct copy_options *options, int *ret_exit)
{
	int c;

	*options = (struct copy_options){
		.ns.command = COMMAND,
		.depth = DEFAULT_DEPTH,
		.piece_bytes = DEFAULT_PIECE,
		.is_sparse = true,
	};
	*ret_exit = CLI_USAGE;
	while ((c = cli_getopt(COMMAND, &copy_cli_options, argc, argv)) != -1) {
		if (c == 'h') {
			help_print();
			*ret_exit = CLI_OK;
			return false;
		}
		if (option_take(options, c, optarg) != 0)
			return false;
	}
	return ends_take(options, argc, argv);
}

int cmd_copy(int argc, char **argv)
{
	static struct copy_options options;
	int status;

	if (!args_parse(argc, argv, &options, &status))
		return status;
	return copy_run(&options) == 0 ? CLI_OK : CLI_FAILED;
}
