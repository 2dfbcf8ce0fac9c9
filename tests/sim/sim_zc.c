/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The simulated reactor: zero-copy sends of reactor/reactor.h.
 *
 * A send happens a little after the call. Its release follows much later, in any order with other
 * releases, as the seed decides. If the bytes changed before their release, a CHECK fails: on a
 * real machine the peer might have received the changed bytes. One thread.
 */
#include "sim_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define SENT_DELAY_US 5

struct sim_zc {
	struct reactor_send *send;
	struct sim_end *end; /* valid as long as the simulation */
	struct iovec *iov;
	unsigned iov_count;
	size_t len_bytes; /* that were sent */
	uint8_t *bytes;   /* copy made at the send */
	bool was_copied;
};

bool reactor_can_send_zc(const struct reactor *reactor)
{
	return !reactor->sim->options.has_no_zc;
}

/* Copies up to len_bytes of the iov to `bytes`, or compares them. */
static bool zc_walk(const struct sim_zc *zc, bool is_compare)
{
	size_t done = 0;

	for (unsigned i = 0; i < zc->iov_count && done < zc->len_bytes; i++) {
		size_t part = zc->iov[i].iov_len;

		if (part > zc->len_bytes - done)
			part = zc->len_bytes - done;
		if (!is_compare)
			memcpy(zc->bytes + done, zc->iov[i].iov_base, part);
		else if (memcmp(zc->bytes + done, zc->iov[i].iov_base, part) != 0)
			return false;
		done += part;
	}
	return true;
}

static void zc_free(struct sim_zc *zc)
{
	free(zc->iov);
	free(zc->bytes);
	free(zc);
}

static void zc_drop(struct sim_event *event)
{
	event->reactor->sim->ops_under_way--;
	zc_free(event->arg);
}

static void released_run(struct sim_event *event)
{
	struct sim_zc *zc = event->arg;
	struct reactor_send *send = zc->send;
	struct reactor_sock *sock = send->sock;
	bool was_copied = zc->was_copied;

	event->reactor->sim->ops_under_way--;
	sim_trace(zc->end->sim, "sock: %d releases %zu bytes", zc->end->fd, zc->len_bytes);
	if (!zc_walk(zc, true))
		CHECK(!"bytes of a zero-copy send changed before they were released");
	zc_free(zc);
	sock->zc_held--;
	send->released(send, was_copied);
	if (sock->zc_held == 0 && sock->closing && sock->fd < 0)
		sock->closed(sock);
}

static int zc_send_now(struct sim *sim, struct sim_zc *zc)
{
	uint32_t refuse_one_in = sim->options.zc_refuse_one_in;

	if (zc->end->is_closed)
		return -EPIPE;
	if (refuse_one_in > 0 && prng_one_in(&sim->prng, refuse_one_in))
		return prng_one_in(&sim->prng, 2) ? -ENOMEM : -ENOBUFS;
	return (int)sim_end_send(zc->end, zc->iov, zc->iov_count);
}

static void sent_run(struct sim_event *event)
{
	struct sim_zc *zc = event->arg;
	struct sim *sim = zc->end->sim;
	uint32_t half_us = sim->options.zc_hold_max_us / 2;
	uint32_t copied_one_in = sim->options.zc_copied_one_in;
	int res = zc_send_now(sim, zc);

	zc->end->is_zc_sending = false;
	zc->len_bytes = res > 0 ? (size_t)res : 0;
	zc->bytes = sim_alloc(zc->len_bytes + 1);
	zc_walk(zc, false);
	zc->was_copied = res > 0 && copied_one_in > 0 && prng_one_in(&sim->prng, copied_one_in);
	sim_event_add(sim, event->reactor,
		      sim->now_ns + half_us * NS_PER_US + sim_delay_ns(sim, half_us), released_run,
		      zc)
		->drop = zc_drop;
	zc->send->sent(zc->send, res);
}

void reactor_sock_send_zc(struct reactor_sock *sock, struct reactor_send *send,
			  const struct iovec *iov, unsigned iov_count)
{
	struct sim_end *end = sock->sim;
	struct sim_zc *zc;

	CHECK_OWNER(sock);
	CHECK(end && !sock->closing && !end->is_zc_sending && iov_count <= 1024);
	end->is_zc_sending = true;
	sock->zc_held++;
	send->sock = sock;
	if (!sim_process_operate(end->process))
		return;
	zc = sim_alloc(sizeof(*zc));
	zc->send = send;
	zc->end = end;
	zc->iov_count = iov_count;
	zc->iov = sim_alloc(iov_count * sizeof(*iov) + 1);
	memcpy(zc->iov, iov, iov_count * sizeof(*iov));
	end->sim->ops_under_way++;
	sim_event_add(end->sim, sock->reactor,
		      end->sim->now_ns + sim_delay_ns(end->sim, SENT_DELAY_US), sent_run, zc)
		->drop = zc_drop;
}
