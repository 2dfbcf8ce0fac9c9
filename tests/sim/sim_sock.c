/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The simulated reactor: sockets and listeners of reactor/reactor.h on the simulated network.
 * Readiness is level-triggered: `ready` is called as long as a requested event holds, and sometimes
 * without one, as on a real machine. Descriptors are numbers from SIM_FIRST_FD up and are never
 * reused.
 */
#include "sim_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define READY_DELAY_US 2

/* ---- readiness ----------------------------------------------------------------------------- */

static unsigned end_events(const struct sim_end *end)
{
	unsigned events = 0;

	if (!end->sock || end->is_connecting)
		return 0;
	if (end->arrived_bytes > 0 || end->has_eof || end->error)
		events |= REACTOR_SOCK_READ;
	if (end->error || sim_end_room(end) > 0)
		events |= REACTOR_SOCK_WRITE;
	return events & end->sock->wanted;
}

static void ready_run(struct sim_event *event)
{
	struct sim_end *end = event->arg;
	bool is_spurious = event->arg2 != NULL;
	unsigned events = end_events(end);

	end->ready_event = NULL;
	if (is_spurious)
		events |= end->sock->wanted & REACTOR_SOCK_READ;
	sim_trace(end->sim, "sock: %d is ready for %u of %u", end->fd, events, end->sock->wanted);
	if (events)
		end->sock->ready(end->sock, events);
	sim_end_kick(end);
}

void sim_end_kick(struct sim_end *end)
{
	struct sim *sim = end->sim;
	bool is_spurious = false;

	if (!end->sock || end->is_connecting || end->ready_event)
		return;
	if (end_events(end) == 0) {
		if (sim->options.is_orderly || !prng_one_in(&sim->prng, 32))
			return;
		is_spurious = true;
	}
	end->ready_event =
		sim_event_add(sim, end->sock->reactor,
			      sim->now_ns + sim_delay_ns(sim, READY_DELAY_US), ready_run, end);
	end->ready_event->arg2 = is_spurious ? end : NULL;
}

/* ---- sockets ------------------------------------------------------------------------------- */

static void sock_init(struct reactor *reactor, struct reactor_sock *sock, struct sim_end *end,
		      void (*ready)(struct reactor_sock *sock, unsigned events))
{
	CHECK(reactor == reactor_current());
	memset(sock, 0, sizeof(*sock));
	sock->reactor = reactor;
	sock->fd = end->fd;
	sock->ready = ready;
	sock->wanted = REACTOR_SOCK_READ;
	sock->sim = end;
	list_init(&sock->hot_node);
	end->sock = sock;
}

void reactor_sock_open(struct reactor *reactor, struct reactor_sock *sock, int taken_fd,
		       void (*ready)(struct reactor_sock *sock, unsigned events))
{
	struct sim_end *end = sim_end_find(reactor->sim, taken_fd);

	CHECK(end && !end->sock && !end->is_closed);
	sock_init(reactor, sock, end, ready);
	sim_end_kick(end);
}

static bool listener_matches(const struct sim_listener *entry, const struct net_addr *addr)
{
	return net_addr_port(&entry->addr) == net_addr_port(addr) &&
	       (net_addr_is_any(&entry->addr) || net_addr_same_host(&entry->addr, addr));
}

static struct sim_listener *listener_find(struct sim *sim, const struct net_addr *addr)
{
	list_for_each(node, &sim->listeners) {
		struct sim_listener *entry = list_entry(node, struct sim_listener, node);

		if (sim_addr_is_unix(addr) ? sim_addr_same(&entry->addr, addr)
					   : listener_matches(entry, addr))
			return entry;
	}
	return NULL;
}

static void accept_run(struct sim_event *event)
{
	struct sim_end *end = event->arg;
	struct sim_listener *entry = listener_find(end->sim, &end->server);

	if (!sim_process_operate(event->reactor->process))
		return;
	/* The listener was closed before the connection was accepted. */
	if (!entry || entry->listener->reactor != event->reactor) {
		end->is_abort = true;
		sim_end_close(end);
		return;
	}
	entry->listener->accepted(entry->listener, end->fd, &end->remote);
}

static void connect_finish(struct sim_end *end, int res)
{
	struct reactor_sock *sock = end->sock;

	end->is_connecting = false;
	sim_trace(end->sim, "net: connect of %d ends with %d", end->fd, res);
	if (res < 0) {
		sim_end_close(end);
		sock->fd = -1;
		sock->sim = NULL;
	}
	sock->connected(sock, res);
	if (res == 0)
		sim_end_kick(end);
}

static void connect_run(struct sim_event *event)
{
	struct sim_end *end = event->arg;
	struct sim *sim = end->sim;
	struct sim_listener *entry;
	struct sim_end *server_end;

	end->ready_event = NULL;
	if (sim_net_is_partitioned(sim, &end->server)) {
		uint64_t *deadline_ns = &end->stalled_until_ns;

		if (*deadline_ns == 0)
			*deadline_ns = sim->now_ns + sim->options.connect_timeout_us * NS_PER_US;
		if (sim->now_ns >= *deadline_ns)
			connect_finish(end, -ETIMEDOUT);
		else
			end->ready_event =
				sim_event_add(sim, event->reactor, sim->now_ns + 100 * NS_PER_MS,
					      connect_run, end);
		return;
	}
	end->stalled_until_ns = 0;
	entry = listener_find(sim, &end->server);
	if (!entry || (!end->is_local && sim_chance(sim, sim->options.faults.refuse_ppm))) {
		connect_finish(end, -ECONNREFUSED);
		return;
	}
	server_end = sim_end_create(sim, entry->listener->reactor->process, &end->server);
	server_end->is_server = true;
	server_end->peer = end;
	server_end->local = end->remote;
	server_end->remote = end->local;
	end->peer = server_end;
	sim_event_add(sim, entry->listener->reactor,
		      sim->now_ns + sim_delay_ns(sim, sim->options.latency_max_us), accept_run,
		      server_end);
	connect_finish(end, 0);
}

/* A client's address has a port of its own; AF_UNIX clients have no address. */
static void end_set_local(struct sim_end *end, const struct net_addr *addr)
{
	struct sim *sim = end->sim;

	if (end->is_local) {
		end->local.storage.ss_family = AF_UNIX;
		end->local.len_bytes = sizeof(sa_family_t);
		return;
	}
	end->local = *addr;
	sim_addr_set_port(&end->local, sim->next_client_port);
	sim->next_client_port = sim->next_client_port == 65535 ? 50000 : sim->next_client_port + 1;
}

void reactor_sock_connect(struct reactor *reactor, struct reactor_sock *sock,
			  const struct net_addr *addr,
			  void (*connected)(struct reactor_sock *sock, int res),
			  void (*ready)(struct reactor_sock *sock, unsigned events))
{
	struct sim *sim = reactor->sim;
	struct sim_end *end = sim_end_create(sim, reactor->process, addr);

	sock_init(reactor, sock, end, ready);
	sock->connected = connected;
	end->is_connecting = true;
	end->remote = *addr;
	end_set_local(end, addr);
	if (!sim_process_operate(reactor->process))
		return;
	end->ready_event = sim_event_add(
		sim, reactor, sim->now_ns + sim_delay_ns(sim, sim->options.latency_max_us),
		connect_run, end);
}

void reactor_sock_want(struct reactor_sock *sock, unsigned events)
{
	CHECK_OWNER(sock);
	if (sock->closing)
		return;
	CHECK(sock->sim != NULL);
	sock->wanted = events;
	sim_end_kick(sock->sim);
}

ssize_t reactor_sock_recv(struct reactor_sock *sock, const struct iovec *iov, unsigned iov_count)
{
	ssize_t len;

	CHECK_OWNER(sock);
	CHECK(!sock->closing && sock->sim);
	if (!sim_process_operate(sock->reactor->process))
		return -EAGAIN;
	len = sim_end_recv(sock->sim, iov, iov_count);
	/* End of stream and errors are reported once, as by the real reactor. */
	if (len <= 0 && len != -EAGAIN)
		sock->wanted &= ~(unsigned)REACTOR_SOCK_READ;
	return len;
}

static ssize_t iov_total(const struct iovec *iov, unsigned iov_count)
{
	ssize_t total = 0;

	for (unsigned i = 0; i < iov_count; i++)
		total += (ssize_t)iov[i].iov_len;
	return total;
}

ssize_t reactor_sock_send(struct reactor_sock *sock, const struct iovec *iov, unsigned iov_count)
{
	CHECK_OWNER(sock);
	CHECK(!sock->closing && sock->sim && iov_count <= 1024);
	CHECK(!((struct sim_end *)sock->sim)->is_zc_sending);
	/* A dying process learns nothing: the whole send appears accepted. */
	if (!sim_process_operate(sock->reactor->process))
		return iov_total(iov, iov_count);
	return sim_end_send(sock->sim, iov, iov_count);
}

size_t reactor_sock_available(const struct reactor_sock *sock)
{
	struct sim_end *end = sock->sim;

	end->promised_bytes = end->arrived_bytes;
	if (end->sim->options.recv_max_bytes < end->promised_bytes)
		end->promised_bytes = end->sim->options.recv_max_bytes;
	return end->promised_bytes;
}

void reactor_sock_shutdown_send(struct reactor_sock *sock)
{
	CHECK_OWNER(sock);
	CHECK(!((struct sim_end *)sock->sim)->is_zc_sending);
	if (sim_process_operate(sock->reactor->process))
		sim_end_send_fin(sock->sim);
}

static void close_drop(struct sim_event *event)
{
	event->reactor->sim->ops_under_way--;
}

static void sock_closed_run(struct sim_event *event)
{
	struct reactor_sock *sock = event->arg;

	event->reactor->sim->ops_under_way--;
	sock->fd = -1;
	sock->sim = NULL;
	/* Otherwise the last release of a zero-copy send calls `closed`. */
	if (sock->zc_held == 0)
		sock->closed(sock);
}

void reactor_sock_close(struct reactor_sock *sock, void (*closed)(struct reactor_sock *sock))
{
	struct sim_end *end = sock->sim;
	struct sim *sim = sock->reactor->sim;

	CHECK_OWNER(sock);
	CHECK(end && !sock->closing);
	sock->closing = true;
	sock->closed = closed;
	if (!sim_process_operate(end->process))
		return;
	sim_trace(sim, "net: %d is closed%s", end->fd, end->is_abort ? " with a reset" : "");
	sim_end_close(end);
	sim->ops_under_way++;
	sim_event_add(sim, sock->reactor, sim->now_ns + sim_delay_ns(sim, 5), sock_closed_run, sock)
		->drop = close_drop;
}

void reactor_sock_set_abort(struct reactor_sock *sock)
{
	struct sim_end *end = sock->sim;

	CHECK_OWNER(sock);
	end->is_abort = true;
}

/* No effect: the simulated network has no acknowledgements; connections end by cuts. */
void reactor_sock_set_timeout(struct reactor_sock *sock, uint32_t unacked_ms)
{
	CHECK_OWNER(sock);
	CHECK(unacked_ms > 0 && !sock->closing);
}

uint64_t reactor_sock_rtt_ns(const struct reactor_sock *sock)
{
	const struct sim_end *end = sock->sim;
	const struct sim_options *options;

	if (!end)
		return 0;
	options = &end->sim->options;
	/* There and back, half of latency_max_us on average each. */
	return options->is_orderly ? 2ull * options->latency_us * NS_PER_US
				   : options->latency_max_us * NS_PER_US;
}

int reactor_sock_peer(const struct reactor_sock *sock, struct net_addr *ret_addr)
{
	const struct sim_end *end = sock->sim;

	if (!end)
		return -ENOTCONN;
	*ret_addr = end->remote;
	return 0;
}

int reactor_sock_local(const struct reactor_sock *sock, struct net_addr *ret_addr)
{
	const struct sim_end *end = sock->sim;

	if (!end)
		return -ENOTCONN;
	*ret_addr = end->local;
	return 0;
}

/* ---- listeners ----------------------------------------------------------------------------- */

int reactor_listener_open(struct reactor *reactor, struct reactor_listener *listener,
			  const struct net_addr *addr,
			  void (*accepted)(struct reactor_listener *listener, int taken_fd,
					   const struct net_addr *peer))
{
	struct sim *sim = reactor->sim;
	bool has_name = sim_addr_is_unix(addr);
	struct sim_listener *entry;

	if ((has_name || net_addr_port(addr) != 0) && listener_find(sim, addr))
		return -EADDRINUSE;
	entry = sim_alloc(sizeof(*entry));
	memset(listener, 0, sizeof(*listener));
	listener->reactor = reactor;
	listener->addr = *addr;
	if (!has_name && net_addr_port(addr) == 0)
		sim_addr_set_port(&listener->addr, sim->next_port++);
	listener->accepted = accepted;
	listener->fd = sim_fd_new(sim, NULL);
	listener->sim = entry;
	entry->listener = listener;
	entry->addr = listener->addr;
	list_push_back(&sim->listeners, &entry->node);
	return 0;
}

static void listener_closed_run(struct sim_event *event)
{
	struct reactor_listener *listener = event->arg;

	event->reactor->sim->ops_under_way--;
	listener->fd = -1;
	listener->closed(listener);
}

void reactor_listener_close(struct reactor_listener *listener,
			    void (*closed)(struct reactor_listener *listener))
{
	struct sim_listener *entry = listener->sim;
	struct sim *sim = listener->reactor->sim;

	CHECK(entry && !listener->closing);
	listener->closing = true;
	listener->closed = closed;
	if (!sim_process_operate(listener->reactor->process))
		return;
	list_remove(&entry->node);
	free(entry);
	listener->sim = NULL;
	sim->ops_under_way++;
	sim_event_add(sim, listener->reactor, sim->now_ns + sim_delay_ns(sim, 5),
		      listener_closed_run, listener)
		->drop = close_drop;
}

void reactor_refuse_fd(int taken_fd)
{
	struct sim_end *end = sim_end_find(sim_now_running, taken_fd);

	CHECK(end && !end->is_closed);
	if (!sim_process_operate(end->process))
		return;
	end->is_abort = true;
	sim_end_close(end);
}
