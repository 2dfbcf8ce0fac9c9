/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `weft attach`: reads where the namespace is and as what it is to be had; attach/ does the rest.
 * Main thread.
 */
#include "attach/attach.h"
#include "attach/nbd_proto.h"
#include "base/text.h"
#include "cli/cli.h"
#include "cli/connect_args.h"
#include "cli/ns_args.h"
#include "cli/options.h"
#include "wire/nvme_tcp.h"

#include <stdio.h>
#include <string.h>

#define COMMAND     "attach"
#define UBLK_ID_MAX ((1u << 20) - 1)

enum long_only {
	OPTION_NBD = 256,
	OPTION_EXPORT,
	OPTION_UBLK,
	OPTION_READ_ONLY,
};

static void help_print(void)
{
	printf("Usage: weft attach --nbd SOCKET [OPTION]... [nvme://ADDR[:PORT][,...]/NQN/NSID]\n"
	       "       weft attach --ublk[=N] [OPTION]... [nvme://ADDR[:PORT][,...]/NQN/NSID]\n\n"
	       "Makes a namespace a disk of this machine, over all its paths, until SIGTERM or\n"
	       "SIGINT: an NBD export on a Unix socket, for QEMU, nbdkit and nbd-client, or a "
	       "block\n"
	       "device of the kernel's ublk driver.\n\n");
	printf("      --nbd SOCKET          serve NBD on this Unix socket (mode 0600)\n"
	       "      --export NAME         name of the export (empty)\n"
	       "      --ublk[=N]            become /dev/ublkbN; the kernel chooses N (root)\n"
	       "      --read-only           refuse everything that writes\n"
	       "  -n, --nqn NQN             the subsystem (%s)\n"
	       "      --path ADDR[:PORT]    a path to it (127.0.0.1:%u); may be repeated\n"
	       "  -d, --discovery ADDR[:PORT]  ask a discovery service for the paths (port %u)\n"
	       "      --nsid N              the namespace; the only one when it is not given\n",
	       CLI_DEFAULT_NQN, NVME_TCP_DEFAULT_PORT, NVME_TCP_DISCOVERY_PORT);
	printf(NS_ARGS_HELP);
	printf("  -h, --help                this text\n\n"
	       "Example:\n"
	       "  weft attach --nbd /run/user/1000/disk.sock -n nqn.2026-11.io.weft:default \\\n"
	       "      --path 192.0.2.7 --path 198.51.100.7 --nsid 1\n"
	       "  qemu-img info 'nbd+unix:///?socket=/run/user/1000/disk.sock'\n");
}

static int ublk_take(struct attach_options *options, const char *value)
{
	uint64_t id;

	options->is_ublk = true;
	if (value == NULL)
		return 0;
	if (text_parse_u64(value, UBLK_ID_MAX, &id) != 0) {
		cli_usage_error(COMMAND, "--ublk=N wants a number, not \"%s\"", value);
		return -1;
	}
	options->ublk_id = (int)id;
	return 0;
}

/* 0, or -1 after a message. */
static int option_take(struct attach_options *options, int c, const char *value)
{
	int res;

	switch (c) {
	case OPTION_NBD:
		if (strcmp(value, "-") == 0) {
			cli_usage_error(COMMAND, "--nbd wants the path of a socket (./- for one "
						 "named -)");
			return -1;
		}
		options->nbd_socket = value;
		return 0;
	case OPTION_EXPORT:
		if (strlen(value) < NBD_NAME_BYTES) {
			options->export_name = value;
			return 0;
		}
		cli_usage_error(COMMAND, "--export is longer than %u bytes", NBD_NAME_BYTES - 1);
		return -1;
	case OPTION_UBLK:
		return ublk_take(options, value);
	case OPTION_READ_ONLY:
		options->is_read_only = true;
		return 0;
	default:
		break;
	}
	res = ns_args_take(&options->ns, c, value);
	if (res == 0)
		res = ns_args_take_where(&options->ns, &options->where, c, value);
	if (res == 0)
		cli_usage_hint(COMMAND);
	return res == 1 ? 0 : -1;
}

/* A URL says all that -n, --path, -d and --nsid say. 0, or -1 after a message. */
static int rest_take(struct attach_options *options, int argc, char **argv)
{
	const struct ns_where *where = &options->where;
	struct ns_where_error error;

	if (optind == argc) {
		ns_args_finish_where(&options->where);
		return 0;
	}
	if (argc - optind > 1 || !ns_where_is_url(argv[optind])) {
		cli_usage_error(COMMAND,
				"\"%s\" is too much; a namespace is named by one nvme:// URL",
				argv[argc - 1]);
		return -1;
	}
	if (where->nqn != NULL || where->path_count > 0 || where->nsid != 0 ||
	    where->discovery.address != NULL) {
		cli_usage_error(COMMAND, "name the namespace by a URL or by flags, not by both");
		return -1;
	}
	if (ns_where_from_url(&options->where, argv[optind], &error) == 0)
		return 0;
	cli_usage_error(COMMAND, "%s", error.text);
	return -1;
}

static const struct option longs[] = {
	NS_ARGS_LONG,
	NS_ARGS_WHERE_LONG,
	{"nbd", required_argument, NULL, OPTION_NBD},
	{"export", required_argument, NULL, OPTION_EXPORT},
	{"ublk", optional_argument, NULL, OPTION_UBLK},
	{"read-only", no_argument, NULL, OPTION_READ_ONLY},
	{"help", no_argument, NULL, 'h'},
	{NULL, 0, NULL, 0},
};

const struct cli_options attach_cli_options = {NS_ARGS_SHORT NS_ARGS_WHERE_SHORT "h", longs};

static bool args_parse(int argc, char **argv, struct attach_options *options, int *ret_exit)
{
	int c;

	memset(options, 0, sizeof(*options));
	options->ns.command = COMMAND;
	options->export_name = "";
	options->ublk_id = -1;
	*ret_exit = CLI_USAGE;
	while ((c = cli_getopt(COMMAND, &attach_cli_options, argc, argv)) != -1) {
		if (c == 'h') {
			help_print();
			*ret_exit = CLI_OK;
			return false;
		}
		if (option_take(options, c, optarg) != 0)
			return false;
	}
	if ((options->nbd_socket != NULL) == options->is_ublk) {
		cli_usage_error(COMMAND, "say as what: --nbd SOCKET or --ublk");
		return false;
	}
	return rest_take(options, argc, argv) == 0;
}

int cmd_attach(int argc, char **argv)
{
	static struct attach_options options;
	int status;

	if (!args_parse(argc, argv, &options, &status))
		return status;
	return attach_run(&options) == 0 ? CLI_OK : CLI_FAILED;
}
