/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parses the connection options that all host-side sub-commands share into a struct host_config.
 * Main thread. Without an option that names the host, the names come from lib/host_names.h, as for
 * programs that use libweft.
 */
#include "cli/connect_args.h"
#include "base/text.h"
#include "base/tool_error.h"
#include "cli/cli.h"
#include "lib/host_names.h"
#include "wire/nqn.h"
#include "wire/nvme_tcp.h"

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

/* ---- options -------------------------------------------------------------------------------- */

static int transport_take(void *to, const struct cli_given *given)
{
	struct connect_options *options = to;

	options->config.addr.transport = host_transport_find(given->value);
	if (options->config.addr.transport != NULL)
		return 0;
	return cli_given_error(given, "\"%s\" is not supported yet; use %s", given->value,
			       host_transport_names());
}

static int nqn_copy(const struct cli_given *given, const char *what, char to[NVME_NQN_BYTES])
{
	const char *problem = nqn_problem(given->value);

	if (problem != NULL) {
		cli_usage_error(given->command, "the %s \"%s\" %s", what, given->value, problem);
		return -1;
	}
	text_copy(to, NVME_NQN_BYTES, given->value);
	return 0;
}

int connect_nqn_take(void *to, const struct cli_given *given)
{
	struct connect_options *options = to;

	options->has_nqn = true;
	return nqn_copy(given, "subsystem NQN", options->config.subsystem_nqn);
}

static int host_nqn_take(void *to, const struct cli_given *given)
{
	struct connect_options *options = to;

	options->has_host_nqn = true;
	return nqn_copy(given, "host NQN", options->config.host_nqn);
}

static int host_id_take(void *to, const struct cli_given *given)
{
	struct connect_options *options = to;

	options->has_host_id = true;
	if (uuid_parse(given->value, &options->config.host_id) == 0)
		return 0;
	cli_usage_error(given->command, "the host identifier \"%s\" is not a UUID", given->value);
	return -1;
}

int connect_keep_alive_take(void *to, const struct cli_given *given)
{
	struct connect_options *options = to;
	uint64_t seconds = 0;
	int res = cli_given_number(given, 0, CONNECT_KATO_MAX_S, &seconds);

	options->config.kato_ms = (uint32_t)seconds * 1000;
	return res;
}

#define OPTIONS struct connect_options

const struct cli_option connect_transport_options[] = {
	{"transport", 't', "tcp", "transport; only tcp so far", "tcp", .take = transport_take},
	{NULL},
};

const struct cli_option connect_where_options[] = {
	{"traddr", 'a', "ADDR", "address or name of the target (127.0.0.1)",
	 CLI_TEXT(OPTIONS, address)},
	{"trsvcid", 's', "PORT", "TCP port (" CLI_DIGITS(NVME_TCP_DEFAULT_PORT) ")",
	 CLI_U16(OPTIONS, port, 1, UINT16_MAX)},
	{"nqn", 'n', "NQN", CONNECT_HELP_NQN, .take = connect_nqn_take},
	{NULL},
};

const struct cli_option connect_host_options[] = {
	{"hostnqn", 'q', "NQN", "NQN of this host (/etc/nvme/hostnqn, else from /etc/machine-id)",
	 .take = host_nqn_take},
	{"hostid", 'I', "UUID",
	 "identifier of this host (/etc/nvme/hostid, else from /etc/machine-id)",
	 .take = host_id_take},
	{"hdr-digest", 'g', NULL, "ask for header digests",
	 CLI_SWITCH(OPTIONS, config.wants_header_digest)},
	{"data-digest", 'G', NULL, "ask for data digests",
	 CLI_SWITCH(OPTIONS, config.wants_data_digest)},
	{NULL},
};

const struct cli_option connect_queue_options[] = {
	{"queues", 'i', "N", CONNECT_HELP_QUEUES,
	 CLI_U32(OPTIONS, config.io_queues, 1, CONNECT_QUEUES_MAX)},
	{"nr-io-queues", 0, "N", NULL, CLI_U32(OPTIONS, config.io_queues, 1, CONNECT_QUEUES_MAX)},
	{"queue-size", 'Q', "N", "entries per queue (128)",
	 CLI_U32(OPTIONS, config.io_queue_size, 1, UINT16_MAX)},
	{NULL},
};

const struct cli_option connect_keep_alive_options[] = {
	{"keep-alive-tmo", 'k', "SEC", CONNECT_HELP_KATO, .take = connect_keep_alive_take},
	{NULL},
};

const struct cli_option connect_query_options[] = {
	CLI_OUTPUT_FORMAT(struct connect_query, is_json),
	{NULL},
};

/* ---- addresses ------------------------------------------------------------------------------ */

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
	if (net_addr_resolve(options->address, options->port, &options->config.addr.net) != 0) {
		tool_error(options->command, "cannot find the address of \"%s\"; check -a",
			   options->address);
		return -1;
	}
	return 0;
}
