/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the connection flags that all host-side sub-commands share into a struct host_config.
 * Main thread. A host that is not named by a flag gets the names of lib/host_names.h, as programs
 * that use libweft do.
 */
#include "cli/connect_args.h"
#include "base/text.h"
#include "base/tool_error.h"
#include "cli/cli.h"
#include "cli/options.h"
#include "lib/host_names.h"
#include "wire/nqn.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void connect_args_init(struct connect_options *options, const char *command, const char *nqn,
		       uint16_t port, unsigned io_queues)
{
	memset(options, 0, sizeof(*options));
	options->command = command;
	options->address = "127.0.0.1";
	options->port = port;
	options->config.io_queues = io_queues;
	options->config.kato_ms = 30000;
	text_copy(options->config.subsystem_nqn, NVME_NQN_BYTES, nqn);
}

static int nqn_take(struct connect_options *options, const char *what, const char *value,
		    char to[NVME_NQN_BYTES])
{
	const char *problem = nqn_problem(value);

	if (problem != NULL) {
		cli_usage_error(options->command, "the %s \"%s\" %s", what, value, problem);
		return -1;
	}
	text_copy(to, NVME_NQN_BYTES, value);
	return 1;
}

static int number_take(struct connect_options *options, const char *flag, const char *value,
		       uint64_t max, uint64_t *ret_value)
{
	if (text_parse_u64(value, max, ret_value) == 0)
		return 1;
	cli_usage_error(options->command, "%s wants a number up to %lu, not \"%s\"", flag,
			(unsigned long)max, value);
	return -1;
}

static int queue_option_take(struct connect_options *options, int c, const char *value)
{
	uint64_t number = 0;
	int res;

	switch (c) {
	case 'i':
		res = number_take(options, "--nr-io-queues", value, 256, &number);
		options->config.io_queues = (unsigned)number;
		break;
	case 'Q':
		res = number_take(options, "--queue-size", value, 65535, &number);
		options->config.io_queue_size = (unsigned)number;
		break;
	default:
		res = number_take(options, "--keep-alive-tmo", value, 4000000, &number);
		options->config.kato_ms = (uint32_t)number * 1000;
		break;
	}
	if (res > 0 && number == 0 && c != 'k') {
		cli_usage_error(options->command, "the number of queues or their size cannot be 0");
		res = -1;
	}
	return res;
}

int connect_args_take(struct connect_options *options, int c, const char *value)
{
	uint64_t number = 0;
	int res;

	switch (c) {
	case 't':
		if (strcmp(value, "tcp") == 0)
			return 1;
		cli_usage_error(options->command, "transport \"%s\" is not there yet; use tcp",
				value);
		return -1;
	case 'a':
		options->address = value;
		return 1;
	case 's':
		res = number_take(options, "--trsvcid", value, 65535, &number);
		options->port = (uint16_t)number;
		return res;
	case 'n':
		return nqn_take(options, "subsystem NQN", value, options->config.subsystem_nqn);
	case 'q':
		options->has_host_nqn = true;
		return nqn_take(options, "host NQN", value, options->config.host_nqn);
	case 'I':
		options->has_host_id = true;
		if (uuid_parse(value, &options->config.host_id) == 0)
			return 1;
		cli_usage_error(options->command, "the host identifier \"%s\" is not a UUID",
				value);
		return -1;
	case 'g':
		options->config.wants_header_digest = true;
		return 1;
	case 'G':
		options->config.wants_data_digest = true;
		return 1;
	case 'i':
	case 'Q':
	case 'k':
		return queue_option_take(options, c, value);
	default:
		return 0;
	}
}

static void host_names_fill(struct connect_options *options)
{
	if (!options->has_host_id)
		host_names_id(&options->config.host_id);
	if (!options->has_host_nqn)
		host_names_nqn(options->config.host_nqn);
}

int connect_args_resolve(const char *text, uint16_t default_port, struct net_addr *ret_addr)
{
	const char *colon = strrchr(text, ':');
	char name[256];
	uint64_t port;

	if (net_addr_parse(text, default_port, ret_addr) == 0)
		return 0;
	if (colon == NULL)
		return net_addr_resolve(text, default_port, ret_addr);
	if ((size_t)(colon - text) >= sizeof(name) ||
	    text_parse_u64(colon + 1, 65535, &port) != 0 || port == 0)
		return -EINVAL;
	text_copy(name, (size_t)(colon - text) + 1, text);
	return net_addr_resolve(name, (uint16_t)port, ret_addr);
}

int connect_args_finish(struct connect_options *options)
{
	host_names_fill(options);
	if (net_addr_resolve(options->address, options->port, &options->config.addr) != 0) {
		tool_error(options->command, "cannot find the address of \"%s\"; check -a",
			   options->address);
		return -1;
	}
	return 0;
}

/* One flag: 0 to go on, else the exit status plus one. */
static int query_take(struct connect_options *options, int c, void (*print_help)(void),
		      bool *ret_is_json)
{
	int taken = connect_args_take(options, c, optarg);

	if (taken < 0)
		return CLI_USAGE + 1;
	if (taken > 0)
		return 0;
	if (c == 'h') {
		print_help();
		return CLI_OK + 1;
	}
	if (c != 'o')
		return cli_usage_hint(options->command) + 1;
	*ret_is_json = strcmp(optarg, "json") == 0;
	if (!*ret_is_json && strcmp(optarg, "normal") != 0)
		return cli_value_error(options->command, "output-format", optarg) + 1;
	return 0;
}

static const struct option query_options[] = {
	CONNECT_ARGS_LONG,
	{"output-format", required_argument, NULL, 'o'},
	{"help", no_argument, NULL, 'h'},
	{0},
};

const struct cli_options connect_query_cli_options = {CONNECT_ARGS_SHORT "o:h", query_options};

bool connect_args_parse_query(struct connect_options *options, int argc, char **argv,
			      void (*print_help)(void), bool *ret_is_json, int *ret_exit)
{
	int end = 0;
	int c;

	*ret_is_json = false;
	while (end == 0 &&
	       (c = cli_getopt(options->command, &connect_query_cli_options, argc, argv)) != -1)
		end = query_take(options, c, print_help, ret_is_json);
	if (end == 0 && optind < argc)
		end = cli_usage_error(options->command, "unexpected argument \"%s\"",
				      argv[optind]) +
		      1;
	*ret_exit = end - 1;
	return end == 0;
}
