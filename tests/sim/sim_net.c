/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The simulated network: connections of two byte streams each, split and delayed at random.
 *
 * A send is accepted as far as its direction's window has room, split into segments that arrive in
 * order after random delays, and received in random pieces. Faults: reset, stall, half close,
 * refusal, a flipped bit, a slow reader. sim_fault.c has the faults that tests request. AF_UNIX
 * sockets have only delays and short counts. As in TCP, closing a socket with unread data resets
 * the connection, and so does data that arrives at a closed end.
 */
#include "sim_internal.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#define PACKET_BYTES 1460 /* on a line with a limit */

/* ---- addresses and ends -------------------------------------------------------------------- */

bool sim_addr_is_unix(const struct net_addr *addr)
{
	return addr->storage.ss_family == AF_UNIX;
}

bool sim_addr_same(const struct net_addr *a, const struct net_addr *b)
{
	if (sim_addr_is_unix(a))
		return a->len_bytes == b->len_bytes &&
		       memcmp(&a->storage, &b->storage, a->len_bytes) == 0;
	return net_addr_same_host(a, b) && net_addr_port(a) == net_addr_port(b);
}

void sim_addr_set_port(struct net_addr *addr, uint16_t port)
{
	if (addr->storage.ss_family == AF_INET6)
		((struct sockaddr_in6 *)&addr->storage)->sin6_port = htons(port);
	else
		((struct sockaddr_in *)&addr->storage)->sin_port = htons(port);
}

int sim_fd_new(struct sim *sim, struct sim_end *end)
{
	if (sim->end_count == sim->end_room) {
		sim->end_room = sim->end_room ? sim->end_room * 2 : 64;
		sim->ends = sim_realloc(sim->ends, sim->end_room * sizeof(struct sim_end *));
	}
	sim->ends[sim->end_count] = end;
	return SIM_FIRST_FD + (int)sim->end_count++;
}

struct sim_end *sim_end_create(struct sim *sim, struct sim_process *process,
			       const struct net_addr *server)
{
	struct sim_end *end = sim_alloc(sizeof(*end));
	uint32_t window_max = sim->options.window_max_bytes;
	/* With a window of a few bytes everything would be late and nothing found. */
	uint32_t window_min = window_max / 256 + 1;

	end->sim = sim;
	end->process = process;
	end->server = *server;
	end->is_local = sim_addr_is_unix(server);
	list_init(&end->inflight);
	list_init(&end->arrived);
	/* Small windows are frequent because they cause short writes. */
	if (sim->options.is_orderly)
		end->window_bytes = window_max;
	else if (prng_one_in(&sim->prng, 4))
		end->window_bytes = prng_below(&sim->prng, window_max / 16 + 1) + window_min;
	else
		end->window_bytes = prng_below(&sim->prng, window_max) + 1;
	if (end->window_bytes < window_min)
		end->window_bytes = window_min;
	end->fd = sim_fd_new(sim, end);
	return end;
}

struct sim_end *sim_end_find(struct sim *sim, int fd)
{
	if (fd < SIM_FIRST_FD || (size_t)(fd - SIM_FIRST_FD) >= sim->end_count)
		return NULL;
	return sim->ends[fd - SIM_FIRST_FD];
}

static void segs_free(struct list *segs)
{
	struct list *node;

	while ((node = list_pop_front(segs)) != NULL)
		free(list_entry(node, struct sim_seg, node));
}

void sim_net_free(struct sim *sim)
{
	struct list *node;

	for (size_t i = 0; i < sim->end_count; i++) {
		if (!sim->ends[i])
			continue;
		segs_free(&sim->ends[i]->inflight);
		segs_free(&sim->ends[i]->arrived);
		free(sim->ends[i]);
	}
	free(sim->ends);
	while ((node = list_pop_front(&sim->listeners)) != NULL)
		free(list_entry(node, struct sim_listener, node));
	while ((node = list_pop_front(&sim->partitions)) != NULL)
		free(list_entry(node, struct sim_partition, node));
	while ((node = list_pop_front(&sim->limits)) != NULL)
		free(list_entry(node, struct sim_limit, node));
}

/* ---- delivery ------------------------------------------------------------------------------ */

static void end_set_reset(struct sim_end *end)
{
	struct sim *sim = end->sim;

	if (end->error || end->is_closed)
		return;
	sim_trace(sim, "net: %d is reset", end->fd);
	end->error = ECONNRESET;
	segs_free(&end->inflight);
	end->inflight_bytes = 0;
	sim_event_cancel(&end->deliver_event);
	/* Arrived bytes may or may not be readable before the error. */
	if (prng_one_in(&sim->prng, 2)) {
		segs_free(&end->arrived);
		end->arrived_bytes = 0;
	}
	sim_end_kick(end);
}

static void seg_launch(struct sim_end *end, enum sim_seg_kind kind, const uint8_t *bytes,
		       size_t len_bytes, uint64_t extra_ns);

static enum sim_direction direction_to(const struct sim_end *end)
{
	return end->is_server ? SIM_TO_SERVER : SIM_TO_CLIENT;
}

/* Data arrived at a closed socket. */
static void answer_reset(struct sim_end *end)
{
	if (sim_net_is_held(end->sim, &end->server, direction_to(end->peer)))
		seg_launch(end->peer, SIM_SEG_RST, NULL, 0, 0);
	else
		end_set_reset(end->peer);
}

static void seg_arrive(struct sim_end *end, struct sim_seg *seg)
{
	end->inflight_bytes -= seg->len_bytes;
	switch (seg->kind) {
	case SIM_SEG_RST:
		free(seg);
		end_set_reset(end);
		return;
	case SIM_SEG_FIN:
		free(seg);
		end->has_eof = true;
		return;
	case SIM_SEG_DATA:
		break;
	}
	if (end->is_closed) {
		/* Data for a closed socket is answered with a reset. */
		free(seg);
		answer_reset(end);
		return;
	}
	end->arrived_bytes += seg->len_bytes;
	list_push_back(&end->arrived, &seg->node);
}

static void deliver_run(struct sim_event *event)
{
	struct sim_end *end = event->arg;
	struct sim *sim = end->sim;

	end->deliver_event = NULL;
	while (!list_empty(&end->inflight) && end->stalled_until_ns <= sim->now_ns) {
		struct sim_seg *seg = list_entry(end->inflight.next, struct sim_seg, node);

		if (seg->arrive_ns > sim->now_ns)
			break;
		list_remove(&seg->node);
		seg_arrive(end, seg);
	}
	sim_end_deliver_schedule(end);
	sim_end_kick(end);
}

void sim_end_deliver_schedule(struct sim_end *end)
{
	struct sim_seg *seg;
	uint64_t at_ns;

	if (end->deliver_event || list_empty(&end->inflight) ||
	    sim_net_is_held(end->sim, &end->server, direction_to(end)))
		return;
	seg = list_entry(end->inflight.next, struct sim_seg, node);
	at_ns = seg->arrive_ns > end->stalled_until_ns ? seg->arrive_ns : end->stalled_until_ns;
	end->deliver_event = sim_event_add(end->sim, NULL, at_ns, deliver_run, end);
}

/* When the line to this end has carried len_bytes more. */
static uint64_t line_take(struct sim_end *end, size_t len_bytes)
{
	struct sim *sim = end->sim;
	uint64_t bytes_per_s = sim_net_limit_of(sim, end);

	if (bytes_per_s == 0)
		return sim->now_ns;
	if (end->line_free_ns < sim->now_ns)
		end->line_free_ns = sim->now_ns;
	end->line_free_ns += (len_bytes * NS_PER_S + bytes_per_s - 1) / bytes_per_s;
	return end->line_free_ns;
}

/* Sends a segment to `end`, behind those in flight. */
static void seg_launch(struct sim_end *end, enum sim_seg_kind kind, const uint8_t *bytes,
		       size_t len_bytes, uint64_t extra_ns)
{
	struct sim *sim = end->sim;
	struct sim_seg *seg = sim_alloc(sizeof(*seg) + len_bytes);
	uint64_t delay_ns = sim->options.is_orderly
				    ? sim->options.latency_us * NS_PER_US
				    : sim_delay_ns(sim, sim->options.latency_max_us);

	seg->kind = kind;
	seg->len_bytes = len_bytes;
	if (len_bytes > 0)
		memcpy(seg->bytes, bytes, len_bytes);
	seg->arrive_ns = line_take(end, len_bytes) + delay_ns + extra_ns;
	if (seg->arrive_ns < end->last_arrive_ns)
		seg->arrive_ns = end->last_arrive_ns;
	end->last_arrive_ns = seg->arrive_ns;
	end->inflight_bytes += len_bytes;
	list_push_back(&end->inflight, &seg->node);
	sim_end_deliver_schedule(end);
}

/* ---- sending and receiving ----------------------------------------------------------------- */

size_t sim_end_room(const struct sim_end *end)
{
	size_t used = end->peer->inflight_bytes + end->peer->arrived_bytes;

	return used < end->peer->window_bytes ? end->peer->window_bytes - used : 0;
}

/* Length of the next segment, of len_bytes that this end is about to send. */
static size_t seg_length(const struct sim_end *end, size_t len_bytes)
{
	struct sim *sim = end->sim;
	uint64_t offset = end->sent_offset;
	uint64_t bytes_per_s = sim_net_limit_of(sim, end);
	size_t len = len_bytes;

	/* A slow line carries one packet after the other. */
	if (bytes_per_s > 0 && len > PACKET_BYTES)
		len = PACKET_BYTES;
	if (len > sim->options.segment_max_bytes)
		len = sim->options.segment_max_bytes;
	if (!sim->options.is_orderly && prng_one_in(&sim->prng, 2))
		len = prng_below(&sim->prng, len) + 1;
	if (!sim->options.is_orderly && prng_one_in(&sim->prng, 8))
		len = prng_below(&sim->prng, len < 140 ? len : 140) + 1;
	if (sim->options.has_cut && offset < sim->options.cut_at &&
	    offset + len > sim->options.cut_at)
		len = sim->options.cut_at - offset;
	return len;
}

static void send_cut(struct sim_end *end, uint8_t *bytes, size_t len_bytes)
{
	struct sim *sim = end->sim;
	size_t done = 0;

	if (sim->tap)
		sim->tap(sim->tap_arg, end->fd, end->sent_offset, bytes, len_bytes);
	if (!end->is_local && sim_chance(sim, sim->options.faults.flip_ppm)) {
		uint64_t bit = prng_below(&sim->prng, len_bytes * 8);

		bytes[bit / 8] ^= (uint8_t)(1u << (bit % 8));
		sim_trace(sim, "net: %d: bit %llu of its stream is changed", end->fd,
			  (unsigned long long)(end->sent_offset * 8 + bit));
	}
	while (done < len_bytes) {
		size_t len = seg_length(end, len_bytes - done);
		bool is_late = sim->options.has_cut && end->sent_offset == sim->options.cut_at;

		seg_launch(end->peer, SIM_SEG_DATA, bytes + done, len, is_late ? NS_PER_MS : 0);
		end->sent_offset += len;
		done += len;
	}
	sim->net_bytes += len_bytes;
}

static void send_faults(struct sim_end *end)
{
	struct sim *sim = end->sim;
	const struct sim_faults *faults = &sim->options.faults;

	if (sim_chance(sim, faults->stall_ppm))
		end->peer->stalled_until_ns = sim->now_ns + sim_delay_ns(sim, faults->stall_max_us);
	if (sim_chance(sim, faults->half_close_ppm))
		sim_end_send_fin(end);
	if (sim_chance(sim, faults->reset_ppm))
		sim_end_reset_both(end);
}

ssize_t sim_end_send(struct sim_end *end, const struct iovec *iov, unsigned iov_count)
{
	struct sim *sim = end->sim;
	size_t total = 0, len, done = 0;
	uint8_t *bytes;

	if (end->error)
		return -end->error;
	if (end->is_fin_sent)
		return -EPIPE;
	for (unsigned i = 0; i < iov_count; i++)
		total += iov[i].iov_len;
	len = sim_end_room(end);
	if (len == 0 || (!sim->options.is_orderly && prng_one_in(&sim->prng, 32)))
		return -EAGAIN;
	if (len > total)
		len = total;
	if (len > 0 && !sim->options.is_orderly && prng_one_in(&sim->prng, 8))
		len = prng_below(&sim->prng, len) + 1;
	if (len == 0)
		return 0;
	len = sim_net_break_allows(end, len);
	bytes = sim_alloc(len);
	for (unsigned i = 0; i < iov_count && done < len; i++) {
		size_t part = iov[i].iov_len < len - done ? iov[i].iov_len : len - done;

		if (part > 0)
			memcpy(bytes + done, iov[i].iov_base, part);
		done += part;
	}
	send_cut(end, bytes, len);
	free(bytes);
	sim_trace(sim, "net: %d sends %zu of %zu", end->fd, len, total);
	sim_net_break_count(end, len);
	if (!end->is_local)
		send_faults(end);
	return (ssize_t)len;
}

static size_t recv_copy(struct sim_end *end, const struct iovec *iov, size_t len)
{
	size_t done = 0, iov_done = 0;

	while (done < len) {
		struct sim_seg *seg = list_entry(end->arrived.next, struct sim_seg, node);
		size_t part = seg->len_bytes - seg->done_bytes;

		if (iov_done == iov->iov_len) {
			iov++;
			iov_done = 0;
			continue;
		}
		if (part > len - done)
			part = len - done;
		if (part > iov->iov_len - iov_done)
			part = iov->iov_len - iov_done;
		memcpy((uint8_t *)iov->iov_base + iov_done, seg->bytes + seg->done_bytes, part);
		iov_done += part;
		done += part;
		seg->done_bytes += part;
		if (seg->done_bytes == seg->len_bytes) {
			list_remove(&seg->node);
			free(seg);
		}
	}
	end->arrived_bytes -= done;
	return done;
}

ssize_t sim_end_recv(struct sim_end *end, const struct iovec *iov, unsigned iov_count)
{
	struct sim *sim = end->sim;
	size_t total = 0, len;

	for (unsigned i = 0; i < iov_count; i++)
		total += iov[i].iov_len;
	if (end->arrived_bytes == 0) {
		if (end->error)
			return -end->error;
		return end->has_eof ? 0 : -EAGAIN;
	}
	len = end->arrived_bytes < total ? end->arrived_bytes : total;
	/* Promised bytes come in one piece; beyond them the count may be shorter. */
	if (len > end->promised_bytes) {
		if (!sim->options.is_orderly && prng_one_in(&sim->prng, 4))
			len = prng_below(&sim->prng, len) + 1;
		if (len > sim->options.recv_max_bytes)
			len = sim->options.recv_max_bytes;
		if (len > 2 && sim_chance(sim, sim->options.faults.slow_ppm))
			len = 1 + prng_below(&sim->prng, 2);
		if (len < end->promised_bytes)
			len = end->promised_bytes;
	}
	end->promised_bytes = 0;
	if (len == 0)
		return 0;
	recv_copy(end, iov, len);
	sim_end_kick(end->peer);
	return (ssize_t)len;
}

/* ---- ends of connections ------------------------------------------------------------------- */

void sim_end_send_fin(struct sim_end *end)
{
	if (end->is_fin_sent || end->error)
		return;
	end->is_fin_sent = true;
	seg_launch(end->peer, SIM_SEG_FIN, NULL, 0, 0);
}

/* The peer gets the bytes sent so far, then the reset; this end is reset at once. */
void sim_end_send_reset(struct sim_end *end)
{
	seg_launch(end->peer, SIM_SEG_RST, NULL, 0, 0);
	end_set_reset(end);
}

void sim_end_bury(struct sim_end *end, enum sim_death how)
{
	if (end->is_closed)
		return;
	if (how == SIM_DEATH_KILLED) {
		/* As with unaccepted connections when a listener closes. */
		if (!end->sock)
			end->is_abort = true;
		sim_end_close(end);
		return;
	}
	end->is_closed = true;
	end->sock = NULL;
	sim_event_cancel(&end->ready_event);
	segs_free(&end->arrived);
	end->arrived_bytes = 0;
}

void sim_end_close(struct sim_end *end)
{
	bool has_unread = end->arrived_bytes > 0;

	CHECK(!end->is_closed);
	end->is_closed = true;
	end->sock = NULL;
	sim_event_cancel(&end->ready_event);
	segs_free(&end->arrived);
	end->arrived_bytes = 0;
	if (!end->peer || end->error)
		return;
	if (end->is_abort) {
		segs_free(&end->peer->inflight);
		end->peer->inflight_bytes = 0;
	}
	if (end->is_abort || has_unread)
		seg_launch(end->peer, SIM_SEG_RST, NULL, 0, 0);
	else
		sim_end_send_fin(end);
}

void sim_end_reset_both(struct sim_end *end)
{
	end_set_reset(end);
	if (end->peer)
		end_set_reset(end->peer);
}

void sim_net_bury(struct sim *sim, struct sim_process *process, enum sim_death how)
{
	list_for_each_safe(node, &sim->listeners) {
		struct sim_listener *entry = list_entry(node, struct sim_listener, node);

		if (entry->listener->reactor->process != process)
			continue;
		list_remove(node);
		free(entry);
	}
	for (size_t i = 0; i < sim->end_count; i++) {
		if (sim->ends[i] && sim->ends[i]->process == process)
			sim_end_bury(sim->ends[i], how);
	}
}

/* ---- what tests see of it ------------------------------------------------------------------- */

struct sim_process *sim_net_peer_process(struct sim *sim, int fd)
{
	struct sim_end *end = sim_end_find(sim, fd);

	return end && end->peer ? end->peer->process : NULL;
}

unsigned sim_net_open_count(const struct sim *sim)
{
	unsigned count = 0;

	for (size_t i = 0; i < sim->end_count; i++)
		count += sim->ends[i] && !sim->ends[i]->is_closed;
	return count;
}

unsigned sim_net_listener_count(const struct sim *sim)
{
	unsigned count = 0;

	list_for_each(node, &sim->listeners)
		count++;
	return count;
}

uint64_t sim_net_bytes(const struct sim *sim)
{
	return sim->net_bytes;
}
