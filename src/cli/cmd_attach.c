/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `weft attach`: parses which namespace to attach and as what (NBD export or ublk device); attach/
 * does the rest. Main thread.
 */
#include "attach/attach.h"
#include "attach/nbd_proto.h"
#include "base/check.h"
#include "base/text.h"
#include "cli/cli.h"
#include "cli/ns_args.h"

#include <getopt.h>
#include <string.h>

#define COMMAND     "attach"
#define UBLK_ID_MAX ((1u << 20) - 1)

static int nbd_take(void *to, const struct cli_given *given)
{
	struct attach_options *options = to;

	options->nbd_socket = given->value;
	if (strcmp(given->value, "-") == 0)
		return cli_given_error(given, "must be the path of a socket (./- for one named -)");
	return 0;
}

static int export_take(void *to, const struct cli_given *given)
{
	struct attach_options *options = to;

	options->export_name = given->value;
	if (strlen(given->value) >= NBD_NAME_BYTES)
		return cli_given_error(given, "is longer than %u bytes", NBD_NAME_BYTES - 1);
	return 0;
}

static int ublk_take(void *to, const struct cli_given *given)
{
	struct attach_options *options = to;
	uint64_t id;

	options->is_ublk = true;
	if (given->value == NULL)
		return 0;
	if (cli_given_number(given, 0, UBLK_ID_MAX, &id) != 0)
		return -1;
	options->ublk_id = (int)id;
	return 0;
}

/* Parses the words. A URL replaces -n, --path, -d and --nsid. 0, or -1 after a message. */
static int words_take(struct attach_options *options, int argc, char **argv)
{
	const struct ns_where *where = &options->where;
	struct ns_where_error error;

	if (optind == argc) {
		ns_args_finish_where(&options->where);
		return 0;
	}
	if (argc - optind > 1 || !ns_where_is_url(argv[optind])) {
		cli_usage_error(COMMAND,
				"unexpected argument \"%s\"; name the namespace by one nvme:// URL",
				argv[argc - 1]);
		return -1;
	}
	if (where->nqn != NULL || where->path_count > 0 || where->nsid != 0 ||
	    where->discovery.address != NULL) {
		cli_usage_error(COMMAND, "name the namespace by a URL or by options, not by both");
		return -1;
	}
	if (ns_where_from_url(&options->where, argv[optind], &error) == 0)
		return 0;
	cli_usage_error(COMMAND, "%s", error.text);
	return -1;
}

static int cmd_attach(int argc, char **argv)
{
	static struct attach_options options = {
		.ns.command = COMMAND, .export_name = "", .ublk_id = -1};
	int res;

	if (!cli_parse(&attach_command, argc, argv, &options, &res))
		return res;
	if ((options.nbd_socket != NULL) == options.is_ublk)
		return cli_usage_error(COMMAND, "give either --nbd SOCKET or --ublk");
	if (words_take(&options, argc, argv) != 0)
		return CLI_USAGE;
	return attach_run(&options) == 0 ? CLI_OK : CLI_FAILED;
}

static const struct cli_option attach_rows[] = {
	{"nbd", 0, "SOCKET", "serve NBD on this Unix socket (mode 0600)", .is_path = true,
	 .take = nbd_take},
	{"export", 0, "NAME", "name of the export (empty)", .take = export_take},
	{"ublk", 0, "N", "become /dev/ublkbN (the kernel chooses N); needs root",
	 .is_value_optional = true, .take = ublk_take},
	{"read-only", 0, NULL, "refuse all commands that write",
	 CLI_SWITCH(struct attach_options, is_read_only)},
	{NULL},
};

static const struct cli_group groups[] = {
	{.options = attach_rows},
	{.options = ns_where_options, .offset = offsetof(struct attach_options, where)},
	{.options = ns_open_options, .offset = offsetof(struct attach_options, ns)},
};

const struct cli_command attach_command = {
	.name = COMMAND,
	.summary = "make a namespace a disk of this machine, by NBD or ublk",
	.usage = "--nbd SOCKET [OPTION]... [nvme://ADDR[:PORT][,...]/NQN/NSID]\n"
		 "--ublk[=N] [OPTION]... [nvme://ADDR[:PORT][,...]/NQN/NSID]",
	.about = "Makes a namespace a disk of this machine, over all its paths, until SIGTERM or\n"
		 "SIGINT: an NBD export on a Unix socket, for QEMU, nbdkit and nbd-client, or a\n"
		 "block device of the kernel's ublk driver.\n",
	.groups = groups,
	.group_count = ARRAY_LEN(groups),
	.takes_words = true,
	.notes = "Example:\n"
		 "  weft attach --nbd /run/user/1000/disk.sock -n nqn.2026-11.io.weft:default \\\n"
		 "      --path 192.0.2.7 --path 198.51.100.7 --nsid 1\n"
		 "  qemu-img info 'nbd+unix:///?socket=/run/user/1000/disk.sock'\n",
	.fn = cmd_attach,
};
