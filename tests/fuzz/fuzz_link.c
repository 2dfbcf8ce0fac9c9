/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzzes the links between members of a cluster, before and after their handshake, on the simulated
 * reactor: two members with the same secret or different ones; a network that changes bytes; and a
 * stranger without the secret, who sends frames of any kind and repeats recorded ones.
 *
 * Input: a byte of switches, then steps of enum step with their bytes. Checked: a link comes up
 * only between members with the same secret; a link delivers what was sent on it, in order, with
 * nothing changed, left out or repeated; everything ends. One thread.
 */
#include "fuzz_script.h"

#include "base/log.h"
#include "base/text.h"
#include "cluster/peer_link.h"
#include "cluster/peers.h"

#include <sys/random.h>
#include <unistd.h>

#define SENT_MAX     64
#define FRAME_NUMBER 16 /* offset of the message number in a frame header */

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size);
ssize_t __wrap_getrandom(void *to, size_t len_bytes, unsigned flags);

enum step {
	STEP_TIME,
	STEP_MESSAGE,
	STEP_CLOSE,
	STEP_CHANGE, /* flips a bit of bytes in transit */
	STEP_CUT,
	STEP_RAW_CONNECT, /* steps of the stranger */
	STEP_RAW_HELLO,
	STEP_RAW_FRAME,
	STEP_RAW_BYTES,
	STEP_RAW_REPEAT,
	STEP_COUNT,
};

enum fuzz_switch {
	SWITCH_OTHER_SECRET = 1,
	SWITCH_OTHER_MEMBERS = 2,
	SWITCH_NO_DIALER = 4,
};

struct message {
	enum peer_message type;
	uint8_t body[PEER_RESET_BYTES];
};

/* A link, and the messages sent on it. */
struct end {
	struct peer_link link;
	struct end *other;
	bool is_used, was_used, is_up, is_stranger;
	unsigned got_count, sent_count;
	struct message sent[SENT_MAX];
};

static struct script script;
static struct sim *sim;
static struct reactor *reactors[2];
static struct reactor_listener listener;
static struct peers_config configs[2];
static struct peer_self selves[2];
static struct end dialer, ends[4]; /* ends: the accepted links */
static struct peer stranger;
static uint8_t recorded[4096];
static size_t recorded_bytes;
static unsigned change_in_bytes, randoms;
static bool is_listener_closed, has_changed;

ssize_t __wrap_getrandom(void *to, size_t len_bytes, unsigned flags)
{
	memset(to, (int)++randoms, len_bytes);
	return (ssize_t)len_bytes;
}

/* ---- links ----------------------------------------------------------------------------------- */

static struct end *end_of(struct peer_link *link)
{
	return container_of(link, struct end, link);
}

static void on_up(struct peer_link *link)
{
	struct end *end = end_of(link);

	CHECK(!end->is_up && link->was_up);
	CHECK(!end->is_stranger);
	CHECK(configs[0].secret[0] == configs[1].secret[0]);
	CHECK(memcmp(selves[0].members, selves[1].members, sizeof(selves[0].members)) == 0);
	end->is_up = true;
}

static void on_message(struct peer_link *link, const struct peer_frame *frame)
{
	struct end *end = end_of(link);
	const struct message *sent;

	CHECK(end->is_up && end->other && end->got_count < end->other->sent_count);
	sent = &end->other->sent[end->got_count++];
	CHECK(sent->type == frame->type && frame->body_bytes == peer_body_bytes(frame->type));
	CHECK(memcmp(sent->body, frame->body, frame->body_bytes) == 0);
}

static void on_link_closed(struct peer_link *link)
{
	struct end *end = end_of(link);

	CHECK(end->is_used && memchr(link->error, 0, sizeof(link->error)) != NULL);
	end->is_used = false;
	if (link->pidfd >= 0)
		close(link->pidfd);
}

static const struct peer_link_handler handler = {
	.up = on_up, .message = on_message, .closed = on_link_closed};

static void on_accepted(struct reactor_listener *unused, int taken_fd, const struct net_addr *from)
{
	/* The first connection is the dialer's, if there is a dialer. */
	bool is_dialer = dialer.is_used && !dialer.other;

	for (unsigned i = 0; i < ARRAY_LEN(ends); i++) {
		struct end *end = &ends[i];

		/* Use each end once: messages of its former link may be in transit. */
		if (end->was_used)
			continue;
		end->is_used = end->was_used = true;
		end->is_stranger = !is_dialer;
		if (is_dialer) {
			end->other = &dialer;
			dialer.other = end;
		}
		peer_link_accept(&end->link, reactors[1], &selves[1], taken_fd, &handler);
		return;
	}
	reactor_refuse_fd(taken_fd);
}

static void on_bytes(void *arg, int fd, uint64_t offset, uint8_t *bytes, size_t len_bytes)
{
	/* Record what members send, for STEP_RAW_REPEAT. */
	for (size_t i = 0; i < len_bytes && recorded_bytes < sizeof(recorded); i++)
		recorded[recorded_bytes++] = bytes[i];
	if (change_in_bytes > 0 && change_in_bytes <= len_bytes) {
		bytes[change_in_bytes - 1] ^= 1u << (change_in_bytes % 8);
		has_changed = true;
		change_in_bytes = 0;
	} else if (change_in_bytes > 0) {
		change_in_bytes -= (unsigned)len_bytes;
	}
}

/* ---- steps ----------------------------------------------------------------------------------- */

static void message_send(struct end *end)
{
	static const enum peer_message types[] = {PEER_PING, PEER_PONG, PEER_RESET, PEER_RESET_DONE,
						  PEER_LOST_HOST};
	struct message *message = &end->sent[end->sent_count];

	if (!end->is_used || !end->is_up || end->link.state != PEER_LINK_UP ||
	    end->sent_count == SENT_MAX)
		return;
	message->type = types[script_u8(&script) % ARRAY_LEN(types)];
	script_bytes(&script, message->body, 16);
	end->sent_count++;
	peer_link_send(&end->link, message->type, message->body);
}

static void stranger_hello(void)
{
	struct peer_hello hello = {.pid = 1};
	uint8_t body[PEER_HELLO_BYTES], frame[PEER_FRAME_MAX];
	uint8_t choice = script_u8(&script);
	size_t bytes;

	text_copy(hello.from, sizeof(hello.from), choice & 1 ? "c" : "a");
	text_copy(hello.to, sizeof(hello.to), choice & 2 ? "a" : "b");
	memcpy(hello.members, selves[choice & 4 ? 0 : 1].members, sizeof(hello.members));
	peer_hello_encode(&hello, body);
	bytes = peer_frame_encode(choice & 8 ? PEER_CHALLENGE : PEER_HELLO, 0, body, frame);
	peer_send(&stranger, frame, bytes);
}

static void stranger_frame(void)
{
	uint8_t body[PEER_RESET_BYTES] = {0}, frame[PEER_FRAME_MAX];
	enum peer_message type = (enum peer_message)(1 + script_u8(&script) % PEER_LOST_HOST);
	uint8_t number = script_u8(&script);
	size_t bytes;

	script_bytes(&script, body, 16);
	bytes = peer_frame_encode(type, type >= PEER_PING, body, frame);
	/* Any message number, also in frames that have none. */
	frame[FRAME_NUMBER] = number;
	script_bytes(&script, frame + bytes - PEER_MAC_BYTES, 4);
	peer_send(&stranger, frame, bytes);
}

static void stranger_step(enum step step)
{
	uint8_t bytes[64];
	size_t from, count;

	if (step == STEP_RAW_CONNECT) {
		if (!stranger.is_open)
			peer_connect(&stranger, reactors[0], &listener.addr);
		return;
	}
	if (!stranger.is_open)
		return;
	if (step == STEP_RAW_HELLO) {
		stranger_hello();
	} else if (step == STEP_RAW_FRAME) {
		stranger_frame();
	} else if (step == STEP_RAW_BYTES) {
		count = script_u8(&script) % sizeof(bytes);
		script_bytes(&script, bytes, count);
		peer_send(&stranger, bytes, count);
	} else {
		from = script_u16(&script) % (recorded_bytes + 1);
		count = script_u16(&script) % (recorded_bytes - from + 1);
		peer_send(&stranger, recorded + from, count);
	}
}

static void run_us(uint64_t us)
{
	sim_run_until(sim, sim_now(sim) + us * NS_PER_US);
}

static void script_play(void)
{
	for (unsigned steps = 0; script.left > 0 && steps < 200; steps++) {
		uint8_t byte = script_u8(&script);
		enum step step = (byte & 127) % STEP_COUNT;
		struct end *end = byte & 128 ? dialer.other : &dialer;

		if (step == STEP_TIME) {
			uint8_t length = script_u8(&script);

			run_us(length < 200 ? length : (length - 199) * 50000u);
		} else if (step == STEP_CHANGE) {
			change_in_bytes = 1 + script_u16(&script) % 2048;
		} else if (step == STEP_CUT) {
			sim_net_cut(sim, NULL);
		} else if (step >= STEP_RAW_CONNECT) {
			sim_enter(reactors[0]);
			stranger_step(step);
			sim_leave(reactors[0]);
		} else if (end) {
			sim_enter(reactors[end != &dialer]);
			if (step == STEP_MESSAGE)
				message_send(end);
			else if (end->is_used)
				peer_link_close(&end->link, "fuzz");
			sim_leave(reactors[end != &dialer]);
		}
	}
}

/* ---- start and end -------------------------------------------------------------------------- */

static void self_make(unsigned index, uint8_t switches)
{
	struct peers_config *config = &configs[index];
	uint8_t is_other = index == 0 ? switches : 0;

	memset(config, 0, sizeof(*config));
	text_copy(config->name, sizeof(config->name), index == 0 ? "a" : "b");
	config->secret_bytes = 32;
	memset(config->secret, is_other & SWITCH_OTHER_SECRET ? 2 : 1, 32);
	config->cntlid_first = 1;
	config->cntlid_last = is_other & SWITCH_OTHER_MEMBERS ? 9 : 8;
	config->peer_count = 1;
	text_copy(config->peers[0].name, sizeof(config->peers[0].name), index == 0 ? "b" : "a");
	/* Both members hash the same member list. */
	config->peers[0].cntlid_first = 1;
	config->peers[0].cntlid_last = 8;
	config->index = index;
	config->peers[0].index = 1 - index;
	config->peers[0].addr.addr = listener.addr;
	memset(&selves[index], 0, sizeof(selves[index]));
	selves[index].config = config;
	CHECK(peer_auth_hash_members(config, selves[index].members) == 0);
}

static void on_listener_closed(struct reactor_listener *unused)
{
	is_listener_closed = true;
}

static bool is_any_used(void *arg)
{
	bool is_used = dialer.is_used || stranger.is_open;

	for (unsigned i = 0; i < ARRAY_LEN(ends); i++)
		is_used = is_used || ends[i].is_used;
	return is_used;
}

static void world_start(uint8_t switches)
{
	struct reactor_config config = {.cpu = -1};
	struct net_addr addr;

	sim = sim_create(switches, NULL);
	sim_net_set_tap(sim, on_bytes, NULL);
	CHECK(reactor_create(&config, &reactors[0]) == 0 &&
	      reactor_create(&config, &reactors[1]) == 0);
	CHECK(net_addr_parse("10.0.0.1:4420", 4420, &addr) == 0);
	peer_init(&stranger);
	sim_enter(reactors[1]);
	CHECK(reactor_listener_open(reactors[1], &listener, &addr, on_accepted) == 0);
	sim_leave(reactors[1]);
	self_make(0, switches);
	self_make(1, switches);
	if (switches & SWITCH_NO_DIALER)
		return;
	dialer.is_used = true;
	sim_enter(reactors[0]);
	peer_link_dial(&dialer.link, reactors[0], &selves[0], &configs[0].peers[0], &handler);
	sim_leave(reactors[0]);
	run_us(2000);
	/* No step has disturbed the link yet. */
	CHECK((switches & 3) ? !dialer.is_up : dialer.is_up);
}

static void world_end(void)
{
	run_us(1000);
	/* If no byte was changed, a link that is still up has delivered everything. */
	if (dialer.is_used && dialer.is_up && dialer.other && dialer.other->is_used && !has_changed)
		CHECK(dialer.other->got_count == dialer.sent_count);
	sim_enter(reactors[0]);
	peer_close(&stranger, false);
	if (dialer.is_used)
		peer_link_close(&dialer.link, "the end");
	sim_leave(reactors[0]);
	run_while(sim, is_any_used, NULL);
	sim_enter(reactors[1]);
	reactor_listener_close(&listener, on_listener_closed);
	sim_leave(reactors[1]);
	run_us(100000);
	CHECK(is_listener_closed && sim_leaks(sim) == 0);
	sim_destroy(sim);
	free(stranger.out);
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size)
{
	log_set_level(LOG_LEVEL_OFF);
	memset(&dialer, 0, sizeof(dialer));
	memset(ends, 0, sizeof(ends));
	recorded_bytes = 0;
	change_in_bytes = randoms = 0;
	is_listener_closed = has_changed = false;
	script = (struct script){.at = input, .left = size};
	world_start(script_u8(&script));
	script_play();
	world_end();
	return 0;
}
