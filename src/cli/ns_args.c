/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Flags that name a namespace: paths, subsystem, NSID, and how it is opened. Only takes them
 * down; libweft checks addresses, time-outs and policies, and says what is wrong with them. Main
 * thread.
 */
#include "cli/ns_args.h"

#include "base/check.h"
#include "cli/cli.h"
#include "cli/connect_args.h"

#include <stdio.h>
#include <string.h>

/* Appends to the list that libweft takes. */
static int set_take(struct ns_options *options, const char *value)
{
	size_t used = strlen(options->timeouts);
	size_t room = sizeof(options->timeouts) - used;

	if (strchr(value, '=') == NULL) {
		cli_usage_error(options->command, "--set wants NAME=VALUE, not \"%s\"", value);
		return -1;
	}
	if ((size_t)snprintf(options->timeouts + used, room, "%s%s", used > 0 ? "," : "", value) >=
	    room) {
		cli_usage_error(options->command, "too many --set");
		return -1;
	}
	return 0;
}

int ns_args_take(struct ns_options *options, int c, const char *value)
{
	switch (c) {
	case 'q':
		options->host_nqn = value;
		return 1;
	case 'I':
		options->host_id = value;
		return 1;
	case 'g':
		options->header_digest = true;
		return 1;
	case 'G':
		options->data_digest = true;
		return 1;
	case 'p':
		options->policy = value;
		return 1;
	case NS_ARGS_PROFILE:
		options->profile = value;
		return 1;
	case NS_ARGS_SET:
		return set_take(options, value) == 0 ? 1 : -1;
	default:
		return 0;
	}
}

/* 1, or -1 after a message. */
static int where_result(const struct ns_options *options, int res,
			const struct ns_where_error *error)
{
	if (res == 0)
		return 1;
	cli_usage_error(options->command, "%s", error->text);
	return -1;
}

int ns_args_take_where(const struct ns_options *options, struct ns_where *where, int c,
		       const char *value)
{
	struct ns_where_error error;
	int res;

	switch (c) {
	case 'n':
		where->nqn = value;
		return 1;
	case 'd':
		res = ns_where_set_discovery(where, value, &error);
		break;
	case NS_ARGS_PATH:
		res = ns_where_add_path(where, value, &error);
		break;
	case NS_ARGS_NSID:
		res = ns_where_set_nsid(where, value, &error);
		break;
	default:
		return 0;
	}
	return where_result(options, res, &error);
}

void ns_args_finish_where(struct ns_where *where)
{
	struct ns_where_error error;

	if (where->nqn == NULL && where->discovery.address == NULL)
		where->nqn = CLI_DEFAULT_NQN;
	if (where->path_count == 0 && where->discovery.address == NULL)
		CHECK(ns_where_add_path(where, "127.0.0.1", &error) == 0);
}
