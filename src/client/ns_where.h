/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The location of a namespace: the paths to its subsystem or a discovery service, the NQN and the
 * NSID. Set part by part, or from a URL, nvme://ADDR[:PORT][,ADDR[:PORT]...]/NQN/NSID, in which
 * every address is one path. This file only splits strings; libweft checks addresses and names. Any
 * thread.
 */
#ifndef WEFT_CLIENT_NS_WHERE_H
#define WEFT_CLIENT_NS_WHERE_H

#include "weft/weft.h"

#include <stdbool.h>
#include <stddef.h>

#define NS_PATHS_MAX        32
#define NS_WHERE_TEXT_BYTES 4096

/* Pointers point into `text` or to the caller's strings. All zero: nothing set yet. */
struct ns_where {
	const char *nqn; /* NULL with a discovery service: the only subsystem it offers */
	struct weft_path paths[NS_PATHS_MAX];
	unsigned path_count;
	struct weft_path discovery; /* address NULL: none */
	uint32_t nsid;              /* 0: the only namespace of the subsystem */
	char text[NS_WHERE_TEXT_BYTES];
	size_t text_used;
};

/* Describes what is wrong with a part, for the user. */
struct ns_where_error {
	char text[NS_WHERE_TEXT_BYTES + 256];
};

/* All functions below that return int: 0, or -EINVAL with the reason in `error`. */

/* "ADDR", "ADDR:PORT" or "[ADDR]:PORT". */
int ns_where_add_path(struct ns_where *where, const char *text, struct ns_where_error *error);
int ns_where_set_discovery(struct ns_where *where, const char *text, struct ns_where_error *error);
int ns_where_set_nsid(struct ns_where *where, const char *text, struct ns_where_error *error);
int ns_where_from_url(struct ns_where *where, const char *url, struct ns_where_error *error);

/* Whether `text` is meant as the URL of a namespace. */
bool ns_where_is_url(const char *text);

#endif
