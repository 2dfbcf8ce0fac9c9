/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Flags and URLs that name a namespace: paths, subsystem, NSID, and how it is opened. Only takes
 * the words apart; libweft checks addresses, time-outs and policies, and says what is wrong with
 * them. Main thread.
 */
#include "cli/ns_args.h"

#include "base/text.h"
#include "cli/cli.h"
#include "cli/connect_args.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define URL_SCHEME "nvme://"

/* A copy of len_bytes of text that lives as long as `where`; NULL when there is no room. */
static char *where_text(struct ns_where *where, const char *text, size_t len_bytes)
{
	char *copy = where->text + where->text_used;

	if (len_bytes >= sizeof(where->text) - where->text_used)
		return NULL;
	memcpy(copy, text, len_bytes);
	copy[len_bytes] = '\0';
	where->text_used += len_bytes + 1;
	return copy;
}

/* "ADDR", "ADDR:PORT", "[ADDR]" or "[ADDR]:PORT", changed in place. More colons than one without
 * brackets are an IPv6 address. */
static int path_split(char *text, struct weft_path *ret_path)
{
	char *colon = strrchr(text, ':');
	char *bracket;

	*ret_path = (struct weft_path){.address = text};
	if (text[0] == '[') {
		bracket = strchr(text, ']');
		if (bracket == NULL || (bracket[1] != '\0' && bracket[1] != ':'))
			return -EINVAL;
		*bracket = '\0';
		ret_path->address = text + 1;
		colon = bracket[1] == ':' ? bracket + 1 : NULL;
	} else if (colon != NULL && strchr(text, ':') != colon) {
		colon = NULL;
	}
	if (colon != NULL) {
		*colon = '\0';
		ret_path->service = colon + 1;
	}
	return ret_path->address[0] == '\0' || (colon != NULL && colon[1] == '\0') ? -EINVAL : 0;
}

static int path_take(const struct ns_options *options, struct ns_where *where, const char *text,
		     size_t len_bytes, struct weft_path *ret_path)
{
	char *copy = where_text(where, text, len_bytes);

	if (copy != NULL && path_split(copy, ret_path) == 0)
		return 0;
	cli_usage_error(options->command, "\"%.*s\" is not an address; write ADDR or ADDR:PORT",
			(int)len_bytes, text);
	return -1;
}

static int path_add(const struct ns_options *options, struct ns_where *where, const char *text,
		    size_t len_bytes)
{
	if (where->path_count == NS_ARGS_PATHS_MAX) {
		cli_usage_error(options->command, "more than %u paths", NS_ARGS_PATHS_MAX);
		return -1;
	}
	if (path_take(options, where, text, len_bytes, &where->paths[where->path_count]) != 0)
		return -1;
	where->path_count++;
	return 0;
}

static int nsid_take(const struct ns_options *options, struct ns_where *where, const char *text)
{
	uint64_t nsid;

	/* FFFFFFFFh is all of them (Base 2.1, 3.2.1). */
	if (text_parse_u64(text, UINT32_MAX - 1, &nsid) != 0 || nsid == 0) {
		cli_usage_error(options->command, "\"%s\" is not a namespace identifier", text);
		return -1;
	}
	where->nsid = (uint32_t)nsid;
	return 0;
}

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

int ns_args_take_where(const struct ns_options *options, struct ns_where *where, int c,
		       const char *value)
{
	switch (c) {
	case 'n':
		where->nqn = value;
		return 1;
	case 'd':
		return path_take(options, where, value, strlen(value), &where->discovery) == 0 ? 1
											       : -1;
	case NS_ARGS_PATH:
		return path_add(options, where, value, strlen(value)) == 0 ? 1 : -1;
	case NS_ARGS_NSID:
		return nsid_take(options, where, value) == 0 ? 1 : -1;
	default:
		return 0;
	}
}

int ns_args_finish_where(const struct ns_options *options, struct ns_where *where)
{
	if (where->nqn == NULL && where->discovery.address == NULL)
		where->nqn = CLI_DEFAULT_NQN;
	if (where->path_count == 0 && where->discovery.address == NULL)
		return path_add(options, where, "127.0.0.1", strlen("127.0.0.1"));
	return 0;
}

bool ns_args_is_url(const char *text)
{
	return strncmp(text, URL_SCHEME, strlen(URL_SCHEME)) == 0;
}

static int url_paths(const struct ns_options *options, const char *list, const char *end,
		     struct ns_where *where)
{
	while (list <= end) {
		const char *comma = memchr(list, ',', (size_t)(end - list));
		const char *stop = comma != NULL ? comma : end;

		if (path_add(options, where, list, (size_t)(stop - list)) != 0)
			return -1;
		list = stop + 1;
	}
	return 0;
}

int ns_args_parse_url(const struct ns_options *options, const char *text, struct ns_where *where)
{
	const char *paths = text + strlen(URL_SCHEME);
	const char *nqn = strchr(paths, '/');
	const char *nsid = strrchr(text, '/');

	memset(where, 0, sizeof(*where));
	if (nqn == NULL || nsid <= nqn + 1) {
		cli_usage_error(options->command,
				"\"%s\" names no namespace; write "
				"nvme://ADDR[:PORT][,ADDR[:PORT]...]/NQN/NSID",
				text);
		return -1;
	}
	if (url_paths(options, paths, nqn, where) != 0 || nsid_take(options, where, nsid + 1) != 0)
		return -1;
	where->nqn = where_text(where, nqn + 1, (size_t)(nsid - nqn - 1));
	if (where->nqn != NULL)
		return 0;
	cli_usage_error(options->command, "\"%s\" is too long", text);
	return -1;
}
