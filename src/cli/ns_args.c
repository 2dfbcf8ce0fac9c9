/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Options that name a namespace: paths, subsystem, NSID, and how it is opened. Only stores most
 * values: libweft checks addresses, time-outs and policies and reports errors. Main thread.
 */
#include "cli/ns_args.h"

#include "base/check.h"
#include "cli/cli.h"
#include "cli/connect_args.h"
#include "wire/nvme_tcp.h"

#include <stdio.h>
#include <string.h>

/* ---- where ---------------------------------------------------------------------------------- */

/* Reports the error of a ns_where_* call. 0, or -1 after a message. */
static int where_end(const struct cli_given *given, int res, const struct ns_where_error *error)
{
	if (res == 0)
		return 0;
	cli_usage_error(given->command, "%s", error->text);
	return -1;
}

static int path_take(void *to, const struct cli_given *given)
{
	struct ns_where_error error;

	return where_end(given, ns_where_add_path(to, given->value, &error), &error);
}

static int discovery_take(void *to, const struct cli_given *given)
{
	struct ns_where_error error;

	return where_end(given, ns_where_set_discovery(to, given->value, &error), &error);
}

static int nsid_take(void *to, const struct cli_given *given)
{
	struct ns_where_error error;

	return where_end(given, ns_where_set_nsid(to, given->value, &error), &error);
}

const struct cli_option ns_where_options[] = {
	{"nqn", 'n', "NQN", CONNECT_HELP_NQN, CLI_TEXT(struct ns_where, nqn)},
	{"path", 0, "ADDR[:PORT]",
	 "a path to the subsystem (127.0.0.1:" CLI_DIGITS(NVME_TCP_DEFAULT_PORT) "); repeatable",
	 .take = path_take},
	{"discovery", 'd', "ADDR[:PORT]",
	 "ask a discovery service for the paths (port " CLI_DIGITS(NVME_TCP_DISCOVERY_PORT) ")",
	 .take = discovery_take},
	{"nsid", 0, "N", "NSID of the namespace (the only namespace)", .take = nsid_take},
	{NULL},
};

void ns_args_finish_where(struct ns_where *where)
{
	struct ns_where_error error;

	if (where->nqn == NULL && where->discovery.address == NULL)
		where->nqn = CLI_DEFAULT_NQN;
	if (where->path_count == 0 && where->discovery.address == NULL)
		CHECK(ns_where_add_path(where, "127.0.0.1", &error) == 0);
}

/* ---- how ------------------------------------------------------------------------------------ */

/* Appends to the comma-separated list for libweft. */
static int set_take(void *to, const struct cli_given *given)
{
	struct ns_options *options = to;
	size_t used = strlen(options->timeouts);
	size_t room = sizeof(options->timeouts) - used;

	if (strchr(given->value, '=') == NULL)
		return cli_given_error(given, "must be NAME=VALUE, not \"%s\"", given->value);
	if ((size_t)snprintf(options->timeouts + used, room, "%s%s", used > 0 ? "," : "",
			     given->value) >= room) {
		cli_usage_error(given->command, "too many --set");
		return -1;
	}
	return 0;
}

#define OPTIONS struct ns_options

const struct cli_option ns_open_options[] = {
	{"policy", 'p', "POLICY", "{words} (queue-depth)", CLI_POLICIES, CLI_TEXT(OPTIONS, policy)},
	{"profile", 0, "PROFILE", "{words}; see explain-timeouts", CLI_PROFILES,
	 CLI_TEXT(OPTIONS, profile)},
	{"set", 0, "NAME=VALUE", "change one time-out; repeatable", .take = set_take},
	{"hostnqn", 'q', "NQN", "NQN of this host (/etc/nvme/hostnqn, else from /etc/machine-id)",
	 CLI_TEXT(OPTIONS, host_nqn)},
	{"hostid", 'I', "UUID",
	 "identifier of this host (/etc/nvme/hostid, else from /etc/machine-id)",
	 CLI_TEXT(OPTIONS, host_id)},
	{"hdr-digest", 'g', NULL, "ask for header digests", CLI_SWITCH(OPTIONS, header_digest)},
	{"data-digest", 'G', NULL, "ask for data digests", CLI_SWITCH(OPTIONS, data_digest)},
	{NULL},
};
