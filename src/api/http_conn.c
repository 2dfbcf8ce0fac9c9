/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chooses the connection to close when a listener of the REST API has too many. Each address has a
 * share of strangers (connections that have shown no token): beyond this share, the address's
 * oldest stranger is closed. When the listener is full, the oldest stranger of the address with the
 * most strangers is closed, then the oldest connection that waits for its next request. So a new
 * connection is the last of its address to be closed, and has time to send its token.
 *
 * Pure; the lists have at most HTTP_CONNECTIONS_MAX elements of each listener.
 */
#include "api/http_conn.h"

#include "api/http.h"

static bool is_stranger(const struct http_conn *conn)
{
	return conn->needs_token && !conn->is_trusted;
}

static unsigned strangers_of(const struct list *conns, const struct http_conn *like)
{
	unsigned count = 0;

	list_for_each(node, conns) {
		const struct http_conn *conn = list_entry(node, struct http_conn, node);

		count += conn->listener == like->listener && is_stranger(conn) &&
			 net_addr_same_host(&conn->peer, &like->peer);
	}
	return count;
}

/* The oldest stranger of the address of `like`; NULL: none. */
static struct http_conn *stranger_oldest(const struct list *conns, const struct http_conn *like)
{
	list_for_each(node, conns) {
		struct http_conn *conn = list_entry(node, struct http_conn, node);

		if (conn->listener == like->listener && is_stranger(conn) &&
		    net_addr_same_host(&conn->peer, &like->peer))
			return conn;
	}
	return NULL;
}

/* The oldest stranger of the address with the most strangers; NULL: none but `newest`. */
static struct http_conn *stranger_of_most(const struct list *conns, const struct http_conn *newest)
{
	struct http_conn *found = NULL;
	unsigned most = 0;

	list_for_each(node, conns) {
		struct http_conn *conn = list_entry(node, struct http_conn, node);
		unsigned count;

		if (conn == newest || conn->listener != newest->listener || !is_stranger(conn))
			continue;
		count = strangers_of(conns, conn);
		if (count > most) {
			most = count;
			found = conn;
		}
	}
	return found;
}

static struct http_conn *idle_oldest(const struct list *conns, const struct http_conn *newest)
{
	list_for_each(node, conns) {
		struct http_conn *conn = list_entry(node, struct http_conn, node);

		if (conn != newest && conn->listener == newest->listener && !conn->is_busy)
			return conn;
	}
	return NULL;
}

struct http_conn *http_conn_victim(const struct list *conns, struct http_conn *newest)
{
	struct http_conn *victim;
	unsigned count = 0;

	if (newest->needs_token && strangers_of(conns, newest) > HTTP_STRANGERS_PER_ADDRESS)
		return stranger_oldest(conns, newest);
	list_for_each(node, conns) {
		const struct http_conn *conn = list_entry(node, struct http_conn, node);

		count += conn->listener == newest->listener;
	}
	if (count <= HTTP_CONNECTIONS_MAX)
		return NULL;
	victim = stranger_of_most(conns, newest);
	if (!victim)
		victim = idle_oldest(conns, newest);
	return victim ? victim : newest;
}
