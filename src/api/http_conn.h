/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A connection of the REST API, and the choice of the one to close when there are too many.
 * Strangers, which have shown no token, never keep out a client with the token, or the Unix socket.
 * Private to api/http*.c. The caller holds the server's lock.
 */
#ifndef WEFT_API_HTTP_CONN_H
#define WEFT_API_HTTP_CONN_H

#include "base/list.h"
#include "base/net_addr.h"

#include <stdbool.h>
#include <stdint.h>

struct http_conn {
	struct list node;     /* in the server's list, oldest first */
	const void *listener; /* each listener has connections of its own; NULL: being closed */
	int fd;
	uint64_t deadline_ns;
	unsigned late_steps; /* how often the deadline passed with unread bytes */
	bool needs_token;
	bool is_trusted;      /* the last request had the token, or needed none */
	bool is_busy;         /* an authorized request is under way */
	struct net_addr peer; /* of TCP */
};

/*
 * Returns the connection to close because `newest`, the last of the list, is one too many; NULL:
 * none. Never a busy connection, except `newest` itself when all others are busy.
 */
struct http_conn *http_conn_victim(const struct list *conns, struct http_conn *newest);

#endif
