/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `weft copy`: parses the two ends, of which at least one is a namespace, and the options; copy/
 * does the rest. An invalid URL is reported when the namespace is opened. Main thread.
 */
#include "base/check.h"
#include "base/text.h"
#include "cli/cli.h"
#include "cli/ns_args.h"
#include "copy/copy.h"

#include <getopt.h>
#include <string.h>

#define COMMAND       "copy"
#define DEFAULT_DEPTH 16
#define DEFAULT_PIECE (1u << 20)
#define PIECE_UNIT    4096

static int size_take(void *to, const struct cli_given *given)
{
	struct copy_options *options = to;
	uint64_t bytes;

	if (text_parse_size(given->value, &bytes) != 0 || bytes == 0 || bytes > COPY_PIECE_MAX ||
	    bytes % PIECE_UNIT != 0)
		return cli_given_error(given, "must be a multiple of %u up to %uM, not \"%s\"",
				       PIECE_UNIT, COPY_PIECE_MAX >> 20, given->value);
	options->piece_bytes = (uint32_t)bytes;
	return 0;
}

static int rate_take(void *to, const struct cli_given *given)
{
	struct copy_options *options = to;

	if (text_parse_size(given->value, &options->rate) == 0 && options->rate > 0)
		return 0;
	return cli_given_error(given, "must be bytes per second (100M), not \"%s\"", given->value);
}

static int resume_take(void *to, const struct cli_given *given)
{
	struct copy_options *options = to;

	options->journal = given->value;
	if (copy_stream_is_named(given->value))
		return cli_given_error(given, "must be a file (./- for one named -)");
	return 0;
}

static int quiet_take(void *to, const struct cli_given *given)
{
	struct copy_options *options = to;

	options->is_quiet = true;
	options->ns.is_quiet = true;
	return 0;
}

/* A stream can be read or written only once: no --resume, no --verify. */
static bool stream_fits(const struct copy_options *options)
{
	bool is_stdin = copy_stream_is_named(options->from);

	if (!is_stdin && !copy_stream_is_named(options->to))
		return true;
	if (options->journal != NULL)
		cli_usage_error(COMMAND, "--resume cannot be used with standard %s",
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
		cli_usage_error(COMMAND, "FROM and TO are required");
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

static int cmd_copy(int argc, char **argv)
{
	static struct copy_options options = {.ns.command = COMMAND,
					      .depth = DEFAULT_DEPTH,
					      .piece_bytes = DEFAULT_PIECE,
					      .is_sparse = true};
	int res;

	if (!cli_parse(&copy_command, argc, argv, &options, &res))
		return res;
	if (!ends_take(&options, argc, argv))
		return CLI_USAGE;
	return copy_run(&options) == 0 ? CLI_OK : CLI_FAILED;
}

#define OPTIONS struct copy_options

static const struct cli_option copy_rows[] = {
	{"resume", 0, "JOURNAL",
	 "keep a journal in this file, from which an interrupted copy continues; the "
	 "journal is removed when the copy is complete",
	 .is_path = true, .take = resume_take},
	{"verify", 0, NULL, "read source and destination again and compare them",
	 CLI_SWITCH(OPTIONS, does_verify)},
	{"rate", 0, "BYTES", "limit in bytes per second, such as 100M", .take = rate_take},
	{"depth", 0, "N", "pieces in flight (" CLI_DIGITS(DEFAULT_DEPTH) ")",
	 CLI_U32(OPTIONS, depth, 1, COPY_DEPTH_MAX)},
	{"size", 0, "BYTES", "size of a piece (1M)", .take = size_take},
	{"no-sparse", 0, NULL, "write zeroes as data; by default zeroes become holes",
	 CLI_CLEAR(OPTIONS, is_sparse)},
	{"progress", 0, NULL, "print progress every second, also without a terminal",
	 CLI_SWITCH(OPTIONS, has_progress)},
	{"quiet", 0, NULL, "only errors and warnings", .take = quiet_take},
	{NULL},
};

static const struct cli_group groups[] = {
	{.options = copy_rows},
	{.options = ns_open_options, .offset = offsetof(OPTIONS, ns)},
};

const struct cli_command copy_command = {
	.name = COMMAND,
	.summary = "copy between files, devices and namespaces",
	.usage = "[OPTION]... FROM TO",
	.about = "Copies a file or block device to a namespace, a namespace to a file, or one\n"
		 "namespace to another. A namespace is written\n"
		 "\n"
		 "  nvme://ADDR[:PORT][,ADDR[:PORT]...]/NQN/NSID\n"
		 "\n"
		 "with an address for each path to the namespace (port 4420). - is standard input\n"
		 "or output; everything else is a file (./- is a file named -).\n",
	.groups = groups,
	.group_count = ARRAY_LEN(groups),
	.takes_words = true,
	.notes = "Example:\n"
		 "  weft copy disk.img nvme://192.0.2.7,198.51.100.7/nqn.2026-11.io.weft:default/1 "
		 "\\\n"
		 "      --resume disk.journal --verify\n",
	.fn = cmd_copy,
};
