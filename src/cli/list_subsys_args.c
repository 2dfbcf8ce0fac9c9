/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The command line of `weft list-subsys`: paths by -a and -s, by --path, or from a discovery
 * service, and how the paths are used. Main thread; names are resolved and the discovery service is
 * queried here, before the reactor starts.
 */
#include "base/check.h"
#include "base/text.h"
#include "base/tool_error.h"
#include "cli/cli.h"
#include "cli/connect_args.h"
#include "cli/list_subsys.h"
#include "cli/timeout_args.h"
#include "lib/discovery_log.h"
#include "wire/nvme_tcp.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define COMMAND "list-subsys"

/* A path as given; resolved after all options, when the default port is known. */
struct path_arg {
	const char *address;
	uint16_t port; /* 0: part of the address, or the default port */
	bool may_have_port;
};

struct list_args {
	struct connect_options connect;
	struct timeout_options timeouts;
	struct path_arg paths[MPATH_PATHS_MAX];
	unsigned path_count;
	uint16_t default_port;
	const char *discovery; /* ADDR or ADDR:PORT; NULL: none */
	char keep_alive[32];   /* -k as an argument of --set */
	enum path_policy policy;
	struct list_subsys_options options;
};

static int path_add(struct list_args *args, const char *address, bool may_have_port)
{
	if (args->path_count == MPATH_PATHS_MAX) {
		cli_usage_error(COMMAND, "more than %u paths", MPATH_PATHS_MAX);
		return -1;
	}
	args->paths[args->path_count++] =
		(struct path_arg){.address = address, .may_have_port = may_have_port};
	return 0;
}

/* ---- options -------------------------------------------------------------------------------- */

static int address_take(void *to, const struct cli_given *given)
{
	return path_add(to, given->value, false);
}

static int path_take(void *to, const struct cli_given *given)
{
	return path_add(to, given->value, true);
}

/* The port of the preceding -a; without one, the default port of all paths. */
static int port_take(void *to, const struct cli_given *given)
{
	struct list_args *args = to;
	uint64_t port;

	if (cli_given_number(given, 1, UINT16_MAX, &port) != 0)
		return -1;
	if (args->path_count > 0)
		args->paths[args->path_count - 1].port = (uint16_t)port;
	else
		args->default_port = (uint16_t)port;
	return 0;
}

static int policy_take(void *to, const struct cli_given *given)
{
	struct list_args *args = to;

	return path_policy_parse(given->value, &args->policy) == 0 ? 0 : cli_words_error(given);
}

/* -k overrides the profile's keep alive time-out. */
static int keep_alive_take(void *to, const struct cli_given *given)
{
	struct list_args *args = to;

	if (connect_keep_alive_take(&args->connect, given) != 0)
		return -1;
	snprintf(args->keep_alive, sizeof(args->keep_alive), "keep-alive=%u",
		 args->connect.config.kato_ms);
	return timeout_args_set(&args->timeouts, args->keep_alive);
}

#define ARGS struct list_args

static const struct cli_option address_options[] = {
	{"traddr", 'a', "ADDR",
	 "address or name of the target (127.0.0.1); repeatable: each -a "
	 "is a path",
	 .take = address_take},
	{"trsvcid", 's', "PORT",
	 "TCP port of the preceding -a (" CLI_DIGITS(NVME_TCP_DEFAULT_PORT) ")", .take = port_take},
	{"path", 0, "ADDR:PORT", "one more path; repeatable", .take = path_take},
	{"discovery", 'd', "ADDR[:PORT]",
	 "ask a discovery service for the paths (port " CLI_DIGITS(NVME_TCP_DISCOVERY_PORT) ")",
	 CLI_TEXT(ARGS, discovery)},
	{NULL},
};

static const struct cli_option nqn_options[] = {
	{"nqn", 'n', "NQN", CONNECT_HELP_NQN, .take = connect_nqn_take},
	{NULL},
};

static const struct cli_option use_options[] = {
	{"policy", 'p', "POLICY", "{words} (queue-depth)", CLI_POLICIES, .take = policy_take},
	{"keep-alive-tmo", 'k', "SEC", "keep alive time-out, over the profile's; 0 for none",
	 .take = keep_alive_take},
	{NULL},
};

static const struct cli_option print_options[] = {
	{"verbose", 'v', NULL, "controller, latency, losses and last error of each path",
	 CLI_SWITCH(ARGS, options.is_verbose)},
	CLI_OUTPUT_FORMAT(ARGS, options.is_json),
	{"json", 0, NULL, "same as -o json", CLI_SWITCH(ARGS, options.is_json)},
	{NULL},
};

static const struct cli_group groups[] = {
	{.options = connect_transport_options, .offset = offsetof(ARGS, connect)},
	{.options = nqn_options, .offset = offsetof(ARGS, connect)},
	{.options = address_options},
	{.options = use_options},
	{.options = timeout_arg_options, .offset = offsetof(ARGS, timeouts)},
	{.options = connect_queue_options, .offset = offsetof(ARGS, connect)},
	{.options = connect_host_options, .offset = offsetof(ARGS, connect)},
	{.options = print_options},
};

const struct cli_command list_subsys_command = {
	.name = "list-subsys",
	.summary = "show a subsystem and the states of its paths",
	.usage = "[OPTION]...",
	.about = "Opens a subsystem over all its paths and shows the paths: address, state, ANA\n"
		 "state, policy. The output has the format of nvme list-subsys.\n",
	.groups = groups,
	.group_count = ARRAY_LEN(groups),
	.notes = "Example:\n"
		 "  weft list-subsys -n nqn.2026-11.io.weft:default --path 192.0.2.7:4420 \\\n"
		 "      --path 198.51.100.7:4420 --json\n",
	.fn = cmd_list_subsys,
};

/* ---- resolving the paths ------------------------------------------------------------------- */

/* Ignores a path that is already in the list. */
static int addr_add(struct list_subsys_options *options, const struct host_addr *addr)
{
	for (unsigned i = 0; i < options->addr_count; i++) {
		if (host_addr_same(&options->addrs[i], addr))
			return 0;
	}
	if (options->addr_count == MPATH_PATHS_MAX) {
		tool_error(COMMAND, "more than %u paths", MPATH_PATHS_MAX);
		return -1;
	}
	options->addrs[options->addr_count++] = *addr;
	return 0;
}

static int paths_resolve(struct list_args *args)
{
	for (unsigned i = 0; i < args->path_count; i++) {
		const struct path_arg *path = &args->paths[i];
		uint16_t port = path->port != 0 ? path->port : args->default_port;
		struct host_addr addr = {.transport = args->connect.config.addr.transport};
		int res = path->may_have_port ? connect_args_resolve(path->address, port, &addr.net)
					      : net_addr_resolve(path->address, port, &addr.net);

		if (res != 0) {
			tool_error(COMMAND,
				   "cannot find the address of \"%s\"; a path is ADDR:PORT",
				   path->address);
			return -1;
		}
		if (addr_add(&args->options, &addr) != 0)
			return -1;
	}
	return 0;
}

/* Without -n, chooses the subsystem if only one is offered. 0, or -1 after a message. */
static int log_choose(struct list_args *args, const struct discovery_log *log)
{
	char *nqn = args->options.config.subsystem_nqn;

	if (args->connect.has_nqn)
		return 0;
	nqn[0] = 0;
	for (uint64_t i = 0; i < log->header.entry_count; i++) {
		const struct discovery_entry *entry = &log->entries[i];

		if (!discovery_entry_is_usable(entry) || strcmp(entry->subsystem_nqn, nqn) == 0)
			continue;
		if (nqn[0] != 0) {
			tool_error(COMMAND, "%s offers %s and others; name one with -n",
				   args->discovery, nqn);
			return -1;
		}
		text_copy(nqn, NVME_NQN_BYTES, entry->subsystem_nqn);
	}
	return 0;
}

/* Names the paths to the subsystem, or to any while none is chosen, that need a transport which
 * this build does not have. */
static void left_out_tell(const struct list_args *args, const struct discovery_log *log)
{
	const char *nqn = args->options.config.subsystem_nqn;
	char text[DISCOVERY_LEFT_OUT_BYTES];

	for (uint64_t i = 0; i < log->header.entry_count; i++) {
		if (discovery_entry_is_left_out(&log->entries[i], nqn))
			tool_error(COMMAND, "%s", discovery_left_out_text(&log->entries[i], text));
	}
}

static int log_take(struct list_args *args, const struct discovery_log *log)
{
	struct list_subsys_options *options = &args->options;

	if (log_choose(args, log) != 0)
		return -1;
	left_out_tell(args, log);
	for (uint64_t i = 0; i < log->header.entry_count; i++) {
		const struct discovery_entry *entry = &log->entries[i];
		struct host_addr addr;
		uint64_t port;

		if (!discovery_entry_is_usable(entry) ||
		    strcmp(entry->subsystem_nqn, options->config.subsystem_nqn) != 0 ||
		    text_parse_u64(entry->service, 65535, &port) != 0 ||
		    net_addr_resolve(entry->address, (uint16_t)port, &addr.net) != 0)
			continue;
		addr.transport = host_transport_of(entry->transport);
		if (addr_add(options, &addr) != 0)
			return -1;
	}
	if (options->addr_count == 0) {
		tool_error(COMMAND,
			   "%s offers this host no path over TCP; check -n and the allowed hosts",
			   args->discovery);
		return -1;
	}
	return 0;
}

static int discovery_take(struct list_args *args)
{
	struct host_config config = args->connect.config;
	struct host_error error = {0};
	struct discovery_log log;
	int res;

	config.io_queues = 0;
	config.kato_ms = 0;
	config.connect_timeout_ms = args->options.config.timeouts.connect_ms;
	text_copy(config.subsystem_nqn, sizeof(config.subsystem_nqn), NVME_DISCOVERY_NQN);
	if (connect_args_resolve(args->discovery, NVME_TCP_DISCOVERY_PORT, &config.addr.net) != 0) {
		tool_error(COMMAND, "cannot find the address of \"%s\"; check -d", args->discovery);
		return -1;
	}
	if (discovery_log_fetch(&config, &log, &error) != 0) {
		tool_error(COMMAND, "%s", error.text);
		return -1;
	}
	res = log_take(args, &log);
	discovery_log_free(&log);
	return res;
}

/* ---- parsing ------------------------------------------------------------------------------- */

static void config_fill(const struct list_args *args, struct mpath_config *config)
{
	const struct host_config *host = &args->connect.config;

	text_copy(config->subsystem_nqn, sizeof(config->subsystem_nqn), host->subsystem_nqn);
	text_copy(config->host_nqn, sizeof(config->host_nqn), host->host_nqn);
	config->host_id = host->host_id;
	config->policy = args->policy;
	config->io_queues = host->io_queues;
	config->io_queue_size = host->io_queue_size;
	config->wants_header_digest = host->wants_header_digest;
	config->wants_data_digest = host->wants_data_digest;
	config->numa_node = -1;
	config->seed = 1;
}

/* Returns CLI_OK, or the exit status after a message. */
static int args_finish(struct list_args *args)
{
	struct mpath_config *config = &args->options.config;

	if (timeout_args_finish(&args->timeouts, &config->timeouts) != 0)
		return CLI_USAGE;
	/* Fills in the host's names, which the discovery service needs too. */
	if (connect_args_finish(&args->connect) != 0)
		return CLI_FAILED;
	config_fill(args, config);
	if (args->path_count == 0 && args->discovery == NULL &&
	    path_add(args, args->connect.address, false) != 0)
		return CLI_FAILED;
	if (paths_resolve(args) != 0 || (args->discovery != NULL && discovery_take(args) != 0))
		return CLI_FAILED;
	return CLI_OK;
}

const struct list_subsys_options *list_subsys_args(int argc, char **argv, int *ret_exit)
{
	static struct list_args args;

	args.default_port = NVME_TCP_DEFAULT_PORT;
	args.policy = PATH_POLICY_QUEUE_DEPTH;
	connect_args_init(&args.connect, COMMAND, CLI_DEFAULT_NQN, NVME_TCP_DEFAULT_PORT, 1);
	timeout_args_init(&args.timeouts, COMMAND);
	if (!cli_parse(&list_subsys_command, argc, argv, &args, ret_exit))
		return NULL;
	*ret_exit = args_finish(&args);
	return *ret_exit == CLI_OK ? &args.options : NULL;
}
