/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a namespace is: the paths to its subsystem or a discovery service, the NQN, the NSID. Made
 * part by part or from a URL, nvme://ADDR[:PORT][,ADDR[:PORT]...]/NQN/NSID, in which every address
 * is one path. Only takes the text apart: libweft checks addresses and names. Any thread.
 */
#ifndef WEFT_CLIENT_NS_WHERE_H
#define WEFT_CLIENT_NS_WHERE_H

#include "weft/weft.h"

#include <stdbool.h>
#include <stddef.h>

#define NS_PATHS_MAX        32
#define NS_WHERE_TEXT_BYTES 4096

/* The pointers point into text, or at what the caller gave. All zero: nothing is known yet. */
struct ns_where {
	const char *nqn; /* NULL with a discovery service: the only one that it offers */
	struct weft_path paths[NS_PATHS_MAX];
	unsigned path_count;
	struct weft_path discovery; /* address NULL: none */
	uint32_t nsid;              /* 0: the only one that there is */
	char text[NS_WHERE_TEXT_BYTES];
	size_t text_used;
};

/* What is wrong with a part, for people. */
struct ns_where_error {
	char text[NS_WHERE_TEXT_BYTES + 256];
};

/* All: 0, or -EINVAL with the reason in `error`. */

/* "ADDR", "ADDR:PORT" or "[ADDR]:PORT". */
int ns_where_add_path(struct ns_where *where, const char *text, struct ns_where_error *error);
int ns_where_set_discovery(struct ns_where *where, const char *text, struct ns_where_error *error);
int ns_where_set_nsid(struct ns_where *where, const char *text, struct ns_where_error *error);
int ns_where_from_url(struct ns_where *where, const char *url, struct ns_where_error *error);

/* Whether the text is meant as a URL of a namespace. */
bool ns_where_is_url(const char *text);

#endif
