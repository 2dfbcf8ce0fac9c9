/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A network link with faults: carries packets between two tun devices, each in its own network
 * namespace, and delays, drops, reorders or cuts them on request. Unlike netem, it needs no kernel
 * module and no right beyond CAP_NET_ADMIN.
 *
 *     relay NAME-A NETNS-A ADDR-A NAME-B NETNS-B ADDR-B
 *
 * Prints "ready" when both devices are up. Then one order per line on standard input, each answered
 * with "ok" when it is in force:
 *     cut both|a|b      drops packets of both directions, or those that a, or b, sends
 *     heal              ends cut, delay, reorder, drop, stall and corrupt
 *     delay US JITTER   delays every packet by US microseconds and up to JITTER more
 *     reorder PPM US    holds PPM of a million packets for US longer than the others
 *     drop PPM          drops PPM of a million packets
 *     stall EVERY LEN   every EVERY microseconds the link stands still for LEN; packets that arrive
 *                       then leave at the end of it; 0 0 ends that
 *     flush             drops the packets that are held now
 *     fin a|b PERCENT   forges a FIN to a, or b, from its peer, in PERCENT of the TCP connections
 *     reset a|b PERCENT the same with a reset; both answer "ok" and the number of connections
 *     corrupt PPM       flips one bit in PPM of a million TCP segments and corrects the checksum,
 *                       except in the first bytes of a stream (KEEP_BYTES), which no digest covers
 *     corrupted         answers "ok" and the number of corrupted segments
 * One thread. Ends at the end of its input.
 */
#include "relay_flow.h"

#include "base/clock.h"
#include "base/prng.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <poll.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#define MTU_BYTES  16000
#define HELD_MAX   4096
#define BATCH      64
#define PPM        1000000u
#define SIDE_COUNT 2
#define KEEP_BYTES 128 /* ICReq and ICResp: digests begin after them */

/* Waiting packets, in a heap by the time when they leave; equal times leave in order of arrival. */
struct packet {
	uint64_t at_ns;
	uint64_t sequence;
	int to;
	size_t len_bytes;
	uint8_t *bytes;
};

struct relay {
	int fds[SIDE_COUNT];
	bool is_cut[SIDE_COUNT]; /* by the side that sends */
	uint32_t delay_us;
	uint32_t jitter_us;
	uint32_t reorder_ppm;
	uint32_t reorder_us;
	uint32_t drop_ppm;
	uint32_t stall_every_us; /* 0: never */
	uint32_t stall_us;
	uint64_t stall_start_ns; /* of the first */
	uint32_t corrupt_ppm;
	uint64_t corrupted;
	struct flow_table table;
	struct prng prng;
	uint64_t sequence;
	uint64_t last_at_ns[SIDE_COUNT]; /* jitter alone must not reorder */
	struct packet heap[HELD_MAX];
	unsigned held;
};

static void die(const char *what)
{
	fprintf(stderr, "relay: %s: %s\n", what, strerror(errno));
	exit(1);
}

/* ---- the devices --------------------------------------------------------------------------- */

static void enter_netns(const char *name)
{
	char path[256];
	int fd;

	snprintf(path, sizeof(path), "/run/netns/%s", name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || setns(fd, CLONE_NEWNET) != 0)
		die(path);
	close(fd);
}

static void set_addr(int ctl, struct ifreq *ifr, unsigned long request, const char *text)
{
	struct sockaddr_in addr = {.sin_family = AF_INET};

	if (inet_pton(AF_INET, text, &addr.sin_addr) != 1) {
		fprintf(stderr, "relay: %s is not an IPv4 address\n", text);
		exit(2);
	}
	memcpy(&ifr->ifr_addr, &addr, sizeof(addr));
	if (ioctl(ctl, request, ifr) != 0)
		die(text);
}

static int open_side(const char *name, const char *netns, const char *addr, const char *peer)
{
	struct ifreq ifr = {.ifr_flags = IFF_TUN | IFF_NO_PI};
	int fd, ctl;

	enter_netns(netns);
	fd = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
	snprintf(ifr.ifr_name, sizeof(ifr.ifr_name), "%s", name);
	if (fd < 0 || ioctl(fd, TUNSETIFF, &ifr) != 0)
		die("tun device");
	ctl = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (ctl < 0)
		die("socket");
	set_addr(ctl, &ifr, SIOCSIFADDR, addr);
	set_addr(ctl, &ifr, SIOCSIFDSTADDR, peer);
	ifr.ifr_mtu = MTU_BYTES;
	if (ioctl(ctl, SIOCSIFMTU, &ifr) != 0)
		die("mtu");
	ifr.ifr_flags = IFF_UP | IFF_RUNNING;
	if (ioctl(ctl, SIOCSIFFLAGS, &ifr) != 0)
		die("up");
	close(ctl);
	return fd;
}

/* ---- packets that wait ---------------------------------------------------------------------- */

static bool leaves_before(const struct packet *a, const struct packet *b)
{
	return a->at_ns != b->at_ns ? a->at_ns < b->at_ns : a->sequence < b->sequence;
}

static void heap_swap(struct relay *relay, unsigned a, unsigned b)
{
	struct packet kept = relay->heap[a];

	relay->heap[a] = relay->heap[b];
	relay->heap[b] = kept;
}

static void heap_push(struct relay *relay, const struct packet *packet)
{
	unsigned at = relay->held++;

	relay->heap[at] = *packet;
	while (at > 0 && leaves_before(&relay->heap[at], &relay->heap[(at - 1) / 2])) {
		heap_swap(relay, at, (at - 1) / 2);
		at = (at - 1) / 2;
	}
}

static void heap_pop(struct relay *relay)
{
	unsigned at = 0;

	relay->heap[0] = relay->heap[--relay->held];
	for (;;) {
		unsigned child = 2 * at + 1;

		if (child >= relay->held)
			return;
		if (child + 1 < relay->held &&
		    leaves_before(&relay->heap[child + 1], &relay->heap[child]))
			child++;
		if (!leaves_before(&relay->heap[child], &relay->heap[at]))
			return;
		heap_swap(relay, at, child);
		at = child;
	}
}

static void drop_held(struct relay *relay)
{
	while (relay->held > 0)
		free(relay->heap[--relay->held].bytes);
}

/* A full device drops the packet, as a real one does. */
static void deliver(struct relay *relay, int to, uint8_t *bytes, size_t len_bytes)
{
	if (prng_below(&relay->prng, PPM) < relay->corrupt_ppm)
		relay->corrupted += flow_corrupt(&relay->table, !to, bytes, len_bytes, KEEP_BYTES,
						 prng_next(&relay->prng));
	if (write(relay->fds[to], bytes, len_bytes) == (ssize_t)len_bytes)
		flow_table_see(&relay->table, !to, bytes, len_bytes);
}

static void send_due(struct relay *relay, uint64_t now_ns)
{
	while (relay->held > 0 && relay->heap[0].at_ns <= now_ns) {
		struct packet *packet = &relay->heap[0];

		deliver(relay, packet->to, packet->bytes, packet->len_bytes);
		free(packet->bytes);
		heap_pop(relay);
	}
}

/* The end of the stall at that time; at_ns itself when the link does not stall then. */
static uint64_t after_stall_ns(const struct relay *relay, uint64_t at_ns)
{
	uint64_t every_ns = relay->stall_every_us * NS_PER_US;
	uint64_t into_ns;

	if (every_ns == 0 || at_ns < relay->stall_start_ns)
		return at_ns;
	into_ns = (at_ns - relay->stall_start_ns) % every_ns;
	if (into_ns >= relay->stall_us * NS_PER_US)
		return at_ns;
	return at_ns - into_ns + relay->stall_us * NS_PER_US;
}

static void take_packet(struct relay *relay, int from, uint8_t *bytes, size_t len_bytes)
{
	uint64_t now_ns = clock_monotonic_ns();
	struct packet packet = {.sequence = relay->sequence++, .to = !from, .len_bytes = len_bytes};
	uint64_t wait_us = relay->delay_us;

	if (relay->is_cut[from] || prng_below(&relay->prng, PPM) < relay->drop_ppm)
		return;
	if (relay->jitter_us > 0)
		wait_us += prng_below(&relay->prng, relay->jitter_us);
	packet.at_ns = after_stall_ns(relay, now_ns) + wait_us * NS_PER_US;
	if (packet.at_ns < relay->last_at_ns[from])
		packet.at_ns = relay->last_at_ns[from];
	if (prng_below(&relay->prng, PPM) < relay->reorder_ppm)
		packet.at_ns += (uint64_t)relay->reorder_us * NS_PER_US;
	else
		relay->last_at_ns[from] = packet.at_ns;
	if (packet.at_ns <= now_ns && relay->held == 0) {
		deliver(relay, packet.to, bytes, len_bytes);
		return;
	}
	if (relay->held == HELD_MAX)
		return;
	packet.bytes = malloc(len_bytes);
	if (!packet.bytes)
		return;
	memcpy(packet.bytes, bytes, len_bytes);
	heap_push(relay, &packet);
}

static void read_side(struct relay *relay, int side)
{
	static uint8_t bytes[MTU_BYTES + 64];

	for (unsigned i = 0; i < BATCH; i++) {
		ssize_t got = read(relay->fds[side], bytes, sizeof(bytes));

		if (got <= 0)
			return;
		take_packet(relay, side, bytes, (size_t)got);
	}
}

/* ---- orders --------------------------------------------------------------------------------- */

/* Forged segments are delivered at once; no fault of the link delays them. */
static unsigned tell_lies(struct relay *relay, enum flow_lie lie, int to, unsigned percent)
{
	unsigned told = 0;

	for (unsigned i = 0; i < FLOWS_MAX; i++) {
		uint8_t segment[FLOW_SEGMENT_BYTES];

		if (prng_below(&relay->prng, 100) < percent &&
		    flow_forge(&relay->table.flows[i], to, lie, segment))
			told += write(relay->fds[to], segment, sizeof(segment)) > 0;
	}
	return told;
}

/* Orders that are answered with a number; false: another order. */
static bool obey_and_count(struct relay *relay, const char *order, uint64_t *ret_count)
{
	unsigned percent;
	char what[8], side;

	*ret_count = relay->corrupted;
	if (strcmp(order, "corrupted") == 0)
		return true;
	if (sscanf(order, "%7s %c %u", what, &side, &percent) != 3 || (side != 'a' && side != 'b'))
		return false;
	if (strcmp(what, "fin") != 0 && strcmp(what, "reset") != 0)
		return false;
	*ret_count = tell_lies(relay, what[0] == 'f' ? FLOW_FIN : FLOW_RST, side == 'b', percent);
	return true;
}

static bool obey(struct relay *relay, const char *order)
{
	unsigned a = 0, b = 0;

	if (strncmp(order, "cut ", 4) == 0) {
		relay->is_cut[0] |= strcmp(order + 4, "b") != 0;
		relay->is_cut[1] |= strcmp(order + 4, "a") != 0;
	} else if (strcmp(order, "heal") == 0) {
		relay->is_cut[0] = relay->is_cut[1] = false;
		relay->delay_us = relay->jitter_us = relay->reorder_ppm = relay->drop_ppm = 0;
		relay->stall_every_us = relay->corrupt_ppm = 0;
	} else if (sscanf(order, "delay %u %u", &a, &b) == 2) {
		relay->delay_us = a;
		relay->jitter_us = b;
	} else if (sscanf(order, "reorder %u %u", &a, &b) == 2) {
		relay->reorder_ppm = a;
		relay->reorder_us = b;
	} else if (sscanf(order, "drop %u", &a) == 1) {
		relay->drop_ppm = a;
	} else if (sscanf(order, "corrupt %u", &a) == 1) {
		relay->corrupt_ppm = a;
	} else if (sscanf(order, "stall %u %u", &a, &b) == 2 && b <= a) {
		relay->stall_every_us = a;
		relay->stall_us = b;
		/* Half an interval later, so not together with the start of the next load. */
		relay->stall_start_ns = clock_monotonic_ns() + a / 2 * NS_PER_US;
	} else if (strcmp(order, "flush") == 0) {
		drop_held(relay);
	} else {
		return false;
	}
	return true;
}

/* False at the end of the input. */
static bool read_orders(struct relay *relay)
{
	char line[128];
	uint64_t count;

	if (!fgets(line, sizeof(line), stdin))
		return false;
	line[strcspn(line, "\n")] = '\0';
	if (obey_and_count(relay, line, &count))
		printf("ok %llu\n", (unsigned long long)count);
	else
		puts(obey(relay, line) ? "ok" : "what?");
	return true;
}

static void run(struct relay *relay)
{
	for (;;) {
		struct pollfd fds[] = {
			{.fd = relay->fds[0], .events = POLLIN},
			{.fd = relay->fds[1], .events = POLLIN},
			{.fd = STDIN_FILENO, .events = POLLIN},
		};
		uint64_t now_ns = clock_monotonic_ns();
		struct timespec wait = {0};
		uint64_t left_ns;

		send_due(relay, now_ns);
		left_ns = relay->held > 0 ? relay->heap[0].at_ns - now_ns : 0;
		wait.tv_sec = (time_t)(left_ns / NS_PER_S);
		wait.tv_nsec = (long)(left_ns % NS_PER_S);
		if (ppoll(fds, 3, relay->held > 0 ? &wait : NULL, NULL) < 0 && errno != EINTR)
			die("poll");
		if (fds[2].revents != 0 && !read_orders(relay))
			return;
		for (int side = 0; side < SIDE_COUNT; side++) {
			if (fds[side].revents != 0)
				read_side(relay, side);
		}
	}
}

int main(int argc, char **argv)
{
	static struct relay relay;

	if (argc != 7) {
		fprintf(stderr, "usage: relay NAME-A NETNS-A ADDR-A NAME-B NETNS-B ADDR-B\n");
		return 2;
	}
	/* Unbuffered, so that poll reports every order that was not read. */
	setvbuf(stdin, NULL, _IONBF, 0);
	setvbuf(stdout, NULL, _IOLBF, 0);
	prng_seed(&relay.prng, clock_monotonic_ns());
	relay.fds[0] = open_side(argv[1], argv[2], argv[3], argv[6]);
	relay.fds[1] = open_side(argv[4], argv[5], argv[6], argv[3]);
	puts("ready");
	run(&relay);
	drop_held(&relay);
	return 0;
}
