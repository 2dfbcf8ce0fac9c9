/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parses the location of a namespace: paths, discovery service, NQN and NSID, part by part or from
 * a URL. Copies of the parts are stored in struct ns_where, so nothing is allocated. See
 * ns_where.h.
 *
 * Any thread; touches only its arguments.
 */
#include "client/ns_where.h"

#include "base/text.h"

#include <errno.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define URL_SCHEME "nvme://"

/* Writes error->text and returns -EINVAL. */
__attribute__((format(printf, 2, 3))) static int wrong(struct ns_where_error *error,
						       const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(error->text, sizeof(error->text), format, args);
	va_end(args);
	return -EINVAL;
}

/* Copies len_bytes of `text` into where->text, terminated by a zero byte; NULL when out of room. */
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

/* Splits "ADDR", "ADDR:PORT", "[ADDR]" or "[ADDR]:PORT" in place. Several colons without brackets
 * mean an IPv6 address. */
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

static int path_take(struct ns_where *where, const char *text, size_t len_bytes,
		     struct weft_path *ret_path, struct ns_where_error *error)
{
	char *copy = where_text(where, text, len_bytes);

	if (copy != NULL && path_split(copy, ret_path) == 0)
		return 0;
	return wrong(error, "\"%.*s\" is not an address; write ADDR or ADDR:PORT", (int)len_bytes,
		     text);
}

static int path_add(struct ns_where *where, const char *text, size_t len_bytes,
		    struct ns_where_error *error)
{
	int res;

	if (where->path_count == NS_PATHS_MAX)
		return wrong(error, "more than %u paths", NS_PATHS_MAX);
	res = path_take(where, text, len_bytes, &where->paths[where->path_count], error);
	where->path_count += res == 0;
	return res;
}

int ns_where_add_path(struct ns_where *where, const char *text, struct ns_where_error *error)
{
	return path_add(where, text, strlen(text), error);
}

int ns_where_set_discovery(struct ns_where *where, const char *text, struct ns_where_error *error)
{
	return path_take(where, text, strlen(text), &where->discovery, error);
}

int ns_where_set_nsid(struct ns_where *where, const char *text, struct ns_where_error *error)
{
	uint64_t nsid;

	/* FFFFFFFFh means all namespaces (Base 2.1, 3.2.1). */
	if (text_parse_u64(text, UINT32_MAX - 1, &nsid) != 0 || nsid == 0)
		return wrong(error, "\"%s\" is not a namespace identifier", text);
	where->nsid = (uint32_t)nsid;
	return 0;
}

bool ns_where_is_url(const char *text)
{
	return strncmp(text, URL_SCHEME, strlen(URL_SCHEME)) == 0;
}

static int url_paths(struct ns_where *where, const char *list, const char *end,
		     struct ns_where_error *error)
{
	while (list <= end) {
		const char *comma = memchr(list, ',', (size_t)(end - list));
		const char *stop = comma != NULL ? comma : end;
		int res = path_add(where, list, (size_t)(stop - list), error);

		if (res != 0)
			return res;
		list = stop + 1;
	}
	return 0;
}

int ns_where_from_url(struct ns_where *where, const char *url, struct ns_where_error *error)
{
	const char *paths = url + strlen(URL_SCHEME);
	const char *nqn = strchr(paths, '/');
	const char *nsid = strrchr(url, '/');
	int res;

	memset(where, 0, sizeof(*where));
	if (nqn == NULL || nsid <= nqn + 1)
		return wrong(error,
			     "\"%s\" names no namespace; write "
			     "nvme://ADDR[:PORT][,ADDR[:PORT]...]/NQN/NSID",
			     url);
	res = url_paths(where, paths, nqn, error);
	if (res == 0)
		res = ns_where_set_nsid(where, nsid + 1, error);
	if (res != 0)
		return res;
	where->nqn = where_text(where, nqn + 1, (size_t)(nsid - nqn - 1));
	return where->nqn != NULL ? 0 : wrong(error, "\"%s\" is too long", url);
}
