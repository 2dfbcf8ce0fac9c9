/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ports: listeners of any transport, the limits on connections, and the choice of a reactor for
 * each connection.
 *
 * Runs on the first reactor (the registry), which owns the listeners and the count of connections
 * per peer address (host_share.h). A queue that ends returns to the registry to be uncounted and
 * freed. A listener outlives configuration changes as long as its port keeps its transport and
 * address.
 */
#include "base/check.h"
#include "base/log.h"
#include "target/host_share.h"
#include "target/local.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct transport_ops *port_transport(const struct port *port)
{
	return port->transport ? port->transport : &transport_tcp;
}

const struct transport_ops *transport_of(enum discovery_transport trtype)
{
	static const struct transport_ops *const built[] = {&transport_tcp};

	for (unsigned i = 0; i < ARRAY_LEN(built); i++) {
		if (built[i]->trtype == trtype)
			return built[i];
	}
	return NULL;
}

/* ---- counting ------------------------------------------------------------------------------ */

static void connection_put(struct target *target, const struct net_addr *addr)
{
	struct host_share *share = host_share_of_addr(target, addr);

	atomic_fetch_sub(&target->connections_now, 1);
	CHECK(share && share->connections > 0);
	share->connections--;
	host_share_settle(target, share);
}

void port_on_queue_end(struct reactor_msg *port_msg)
{
	struct queue *queue = container_of(port_msg, struct queue, port_msg);

	connection_put(queue->local->target, &queue->peer);
	queue->transport->destroy(queue);
}

/* ---- arrival ------------------------------------------------------------------------------- */

static void arrival_failed(struct reactor_msg *msg)
{
	struct arrival *arrival = container_of(msg, struct arrival, msg);

	connection_put(arrival->local->target, &arrival->peer);
	free(arrival);
}

/* On the reactor chosen by pick_local. */
static void arrival_here(struct reactor_msg *msg)
{
	struct arrival *arrival = container_of(msg, struct arrival, msg);
	struct local *local = arrival->local;
	int res = -ESHUTDOWN;

	/* The first snapshot may still be on its way to this reactor. */
	if (local->snapshot && !local->is_stopping)
		res = arrival->transport->accept(local, arrival);
	if (res == 0) {
		free(arrival);
		return;
	}
	log_limited(LOG_LEVEL_WARN, "target", "a new connection was refused: %s", strerror(-res));
	arrival->transport->refuse(arrival->incoming);
	reactor_post(target_registry(local->target)->reactor, &arrival->msg, arrival_failed);
}

/*
 * The load of a reactor, estimated by its connections. A connection counts as an I/O queue until
 * its Connect shows that it is an admin queue. Otherwise hosts that open one admin and one I/O
 * queue each would put all their I/O on every second reactor.
 */
static uint64_t local_load(struct local *local)
{
	unsigned all = atomic_load_explicit(&local->queue_count, memory_order_relaxed);
	unsigned admin = atomic_load_explicit(&local->admin_count, memory_order_relaxed);

	return admin > all ? 0 : ((uint64_t)(all - admin) << 32) + admin;
}

/* The reactor with the least load. Equal reactors take turns. */
static struct local *pick_local(struct target *target)
{
	struct local *best = NULL;
	uint64_t least = UINT64_MAX;

	for (unsigned i = 0; i < target->local_count; i++) {
		struct local *local =
			&target->locals[(target->next_local + i) % target->local_count];
		uint64_t load = local_load(local);

		if (load < least) {
			least = load;
			best = local;
		}
	}
	target->next_local = (best->index + 1) % target->local_count;
	return best;
}

/*
 * Why a connection is refused, or NULL when it is accepted. Beyond a limit there is a small reserve
 * for discovery, because only Connect shows what a connection is for. *ret_limit: the limit that
 * was reached, or NULL. An I/O Connect beyond a limit is refused.
 */
static const char *refusal(struct target *target, const struct host_share *share,
			   const char **ret_limit)
{
	const struct snapshot *snapshot = target_registry(target)->snapshot;
	const struct target_limits *limits;
	uint32_t total = atomic_load(&target->connections_now);

	*ret_limit = NULL;
	if (!snapshot)
		return "the target is starting";
	if (!share)
		return "out of memory";
	limits = &snapshot->limits;
	if (total >= limits->connections_max)
		*ret_limit = "the limit of connections is reached (limits.connections)";
	if (share->connections >= limits->connections_per_host_max)
		*ret_limit = "the limit of connections of one address is reached "
			     "(limits.connections_per_host)";
	return total >= limits->connections_max + HOST_SHARE_SPARE_MAX ||
			       share->connections >= limits->connections_per_host_max +
							     HOST_SHARE_SPARE_PER_HOST_MAX
		       ? *ret_limit
		       : NULL;
}

static void arrival_refuse(struct target *target, struct host_share *share,
			   const struct net_addr *from, const char *why)
{
	char text[NET_ADDR_TEXT_BYTES];

	log_limited(LOG_LEVEL_WARN, "target", "connection from %s refused: %s",
		    net_addr_format(from, text), why);
	atomic_fetch_add(&target->connections_refused, 1);
	if (share)
		host_share_settle(target, share);
}

void listener_on_arrival(struct listener *listener, union incoming incoming,
			 const struct net_addr *from)
{
	struct target *target = listener->target;
	struct host_share *share =
		target_registry(target)->snapshot ? host_share_of_addr(target, from) : NULL;
	struct arrival *arrival = calloc(1, sizeof(*arrival));
	char text[NET_ADDR_TEXT_BYTES];
	const char *limit = NULL;
	const char *why = arrival ? refusal(target, share, &limit) : "out of memory";

	if (why) {
		arrival_refuse(target, share, from, why);
		listener->transport->refuse(incoming);
		free(arrival);
		return;
	}
	if (limit)
		log_limited(LOG_LEVEL_WARN, "target",
			    "connection from %s is for discovery only: %s",
			    net_addr_format(from, text), limit);
	share->connections++;
	atomic_fetch_add(&target->connections_now, 1);
	arrival->local = pick_local(target);
	arrival->transport = listener->transport;
	arrival->peer = *from;
	arrival->port_id = listener->port_id;
	arrival->is_spare = limit != NULL;
	arrival->incoming = incoming;
	reactor_post(arrival->local->reactor, &arrival->msg, arrival_here);
}

/* ---- listeners ----------------------------------------------------------------------------- */

void listener_on_closed(struct listener *listener)
{
	struct target *target = listener->target;

	free(listener);
	target->listener_count--;
	local_on_empty(target_registry(target));
}

static void listener_close(struct listener *listener)
{
	list_remove(&listener->node);
	listener->transport->unlisten(listener);
}

static bool listener_serves(const struct listener *listener, const struct port *port)
{
	return listener->port_id == port->id && listener->transport == port_transport(port) &&
	       listener->asked.len_bytes == port->listen.len_bytes &&
	       memcmp(&listener->asked.storage, &port->listen.storage, port->listen.len_bytes) == 0;
}

static struct listener *listener_find(struct target *target, const struct port *port)
{
	list_for_each(node, &target->listeners) {
		struct listener *listener = list_entry(node, struct listener, node);

		if (listener_serves(listener, port))
			return listener;
	}
	return NULL;
}

static int listener_open(struct target *target, const struct port *port)
{
	const struct transport_ops *transport = port_transport(port);
	struct listener *listener = calloc(1, transport->listener_bytes);
	int res;

	if (!listener)
		return -ENOMEM;
	listener->transport = transport;
	listener->target = target;
	listener->reactor = target_registry(target)->reactor;
	listener->asked = port->listen;
	listener->port_id = port->id;
	listener->is_new = true;
	res = transport->listen(listener);
	if (res != 0) {
		free(listener);
		return res;
	}
	target->listener_count++;
	list_push_back(&target->listeners, &listener->node);
	return 0;
}

static void listeners_undo(struct target *target)
{
	list_for_each_safe(node, &target->listeners) {
		struct listener *listener = list_entry(node, struct listener, node);

		if (listener->is_new)
			listener_close(listener);
	}
}

/* Logs a zero_copy setting that the transport cannot follow here: once per configuration, not for
 * each connection. */
static void port_check_zero_copy(struct target *target, const struct port *port)
{
	const struct transport_ops *transport = port_transport(port);
	const char *problem;

	if (port->zero_copy == ZERO_COPY_OFF || !transport->zero_copy_problem)
		return;
	problem = transport->zero_copy_problem(target_registry(target)->reactor);
	if (problem)
		log_line(port->zero_copy == ZERO_COPY_ON ? LOG_LEVEL_WARN : LOG_LEVEL_INFO,
			 "target", "port %u: %s: zero_copy is off", port->id, problem);
}

int ports_open(struct target *target, const struct snapshot *snapshot, char *error,
	       size_t error_bytes)
{
	char text[NET_ADDR_TEXT_BYTES];

	for (unsigned i = 0; i < snapshot->port_count; i++) {
		const struct port *port = &snapshot->ports[i];
		int res = listener_find(target, port) ? 0 : listener_open(target, port);

		if (res == 0) {
			port_check_zero_copy(target, port);
			continue;
		}
		snprintf(error, error_bytes, "port %u: cannot listen on %s: %s", port->id,
			 net_addr_format(&port->listen, text), strerror(-res));
		listeners_undo(target);
		return res;
	}
	return 0;
}

void ports_close_unused(struct target *target, const struct snapshot *snapshot,
			struct bound_ports *ret_bound)
{
	ret_bound->count = 0;
	list_for_each_safe(node, &target->listeners) {
		struct listener *listener = list_entry(node, struct listener, node);
		const struct port *port =
			snapshot ? snapshot_find_port(snapshot, listener->port_id) : NULL;

		listener->is_new = false;
		if (!port || !listener_serves(listener, port)) {
			listener_close(listener);
			continue;
		}
		ret_bound->addrs[ret_bound->count] = listener->bound;
		ret_bound->ids[ret_bound->count++] = listener->port_id;
	}
}
