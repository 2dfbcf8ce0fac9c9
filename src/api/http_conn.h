/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A connection of the REST API, and which one has to go when there are too many: strangers, who
 * have shown no token, never keep somebody with a token, or the Unix socket, out. Private to
 * api/http*.c; whoever calls holds the server's lock.
 */
#ifndef WEFT_API_HTTP_CONN_H
#define WEFT_API_HTTP_CONN_H

#include "base/list.h"
#include "base/net_addr.h"

#include <stdbool.h>
#include <stdint.h>

struct http_conn {
	struct list node;     /* oldest first */
	const void *listener; /* each has connections of its own */
	int fd;
	uint64_t deadline_ns;
	bool needs_token;
	bool is_trusted;      /* its last request had the token, or needed none */
	bool is_busy;         /* a request with a right to it is under way */
	struct net_addr peer; /* of TCP */
};

/*
 * The connection to close because `newest`, the last of the list, is one too many; NULL: it is not.
 * Never one that is busy, except `newest` itself when all others are.
 */
struct http_conn *http_conn_victim(const struct list *conns, struct http_conn *newest);

#endif
