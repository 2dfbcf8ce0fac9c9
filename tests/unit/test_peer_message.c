/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages between members of a cluster: encoding and decoding, frames in pieces, and every invalid
 * frame; proofs and keys differ by label, secret and nonce.
 */
#include "base/text.h"
#include "base/unix_addr.h"
#include "base/unix_socket.h"
#include "cluster/peer_auth.h"
#include "cluster/peer_link.h"
#include "cluster/peer_message.h"
#include "target/ctrl_reset.h"
#include "temp_folder.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *error;
static struct peer_frame frame;

static void frames(void)
{
	static const enum peer_message types[] = {
		PEER_HELLO, PEER_CHALLENGE,  PEER_PROOF,     PEER_WELCOME, PEER_PING, PEER_PONG,
		PEER_RESET, PEER_RESET_DONE, PEER_LOST_HOST, PEER_SERVED,  PEER_SEEN};
	uint8_t bytes[2 * PEER_FRAME_MAX] = {0};

	for (unsigned i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		uint64_t number = types[i] >= PEER_PING ? 77 : 0;
		size_t size = peer_frame_encode(types[i], number, NULL, bytes);
		bool waits = true;

		for (size_t have = 0; have < size; have++)
			waits &= peer_frame_decode(bytes, have, &frame, &error) == 0;
		EXPECT_THAT(waits, "kind %u: a part of it is waited for", types[i]);
		EXPECT_THAT(peer_frame_decode(bytes, sizeof(bytes), &frame, &error) == (int)size &&
				    frame.type == types[i] && frame.number == number &&
				    frame.body_bytes == peer_body_bytes(types[i]) &&
				    frame.mac == bytes + size - PEER_MAC_BYTES &&
				    size <= PEER_FRAME_MAX,
			    "kind %u: there and back", types[i]);
	}
}

static void spoilt(void)
{
	static const struct {
		size_t at;
		uint8_t value;
		const char *what;
	} spoils[] = {
		{0, 0, "magic"},     {4, 1, "version"},
		{6, 0, "kind 0"},    {6, 12, "kind 12"},
		{8, 1, "size"},      {11, 0xff, "a huge size"},
		{12, 1, "reserved"}, {16, 0, "a number missing"},
	};
	uint8_t bytes[PEER_FRAME_MAX];

	for (unsigned i = 0; i < sizeof(spoils) / sizeof(spoils[0]); i++) {
		peer_frame_encode(PEER_PING, 1, NULL, bytes);
		bytes[spoils[i].at] = spoils[i].value;
		EXPECT_THAT(peer_frame_decode(bytes, PEER_HEADER_BYTES, &frame, &error) ==
					    -EPROTO &&
				    error,
			    "refused by its header alone: %s", spoils[i].what);
	}
	peer_frame_encode(PEER_HELLO, 0, NULL, bytes);
	bytes[16] = 1;
	EXPECT_THAT(peer_frame_decode(bytes, sizeof(bytes), &frame, &error) == -EPROTO,
		    "a greeting has no number");
}

static void hellos(void)
{
	struct peer_hello hello = {.from = "a", .to = "b", .pid = 4711}, back;
	uint8_t body[PEER_HELLO_BYTES];

	memset(hello.nonce, 5, sizeof(hello.nonce));
	memset(hello.members, 6, sizeof(hello.members));
	memset(hello.boot_id.bytes, 7, sizeof(hello.boot_id.bytes));
	peer_hello_encode(&hello, body);
	EXPECT_THAT(peer_hello_decode(body, &back) == 0 &&
			    memcmp(&hello, &back, sizeof(hello)) == 0,
		    "a greeting, there and back");
	for (unsigned i = PEER_HELLO_BYTES - 4; i < PEER_HELLO_BYTES; i++) {
		body[i] = 1;
		EXPECT_THAT(peer_hello_decode(body, &back) == -EPROTO,
			    "reserved bytes of a greeting: %u", i);
		body[i] = 0;
	}
	body[2] = 'x';
	EXPECT_THAT(peer_hello_decode(body, &back) == -EPROTO,
		    "something behind the end of a name");
	memset(body, 'x', PEER_NAME_BYTES);
	EXPECT_THAT(peer_hello_decode(body, &back) == -EPROTO, "a name without an end");
	memset(body, 0, PEER_NAME_BYTES);
	EXPECT_THAT(peer_hello_decode(body, &back) == -EPROTO, "no name");
}

static void pongs(void)
{
	const struct peer_pulse pulse = {.stuck_ms = 0x12345678, .reactor = 9};
	struct peer_pulse back = {0};
	uint8_t body[PEER_PONG_BYTES];

	peer_pong_encode(&pulse, body);
	EXPECT_THAT(peer_pong_decode(body, &back) == 0 && back.stuck_ms == 0x12345678 &&
			    back.reactor == 9,
		    "what reactors do, there and back");
	body[15] = 1;
	EXPECT_THAT(peer_pong_decode(body, &back) == -EPROTO, "reserved bytes of an answer");
}

static void resets(void)
{
	struct peer_reset reset = {.id = 1,
				   .subsystem_nqn = "nqn.s",
				   .host_nqn = "nqn.h",
				   .cntlid = 0x1234,
				   .uniquifier = 9,
				   .random_number = 0x1122334455667788,
				   .is_exclusive = true},
			  back = {0};
	uint8_t body[PEER_RESET_BYTES], done[PEER_DONE_BYTES];
	uint64_t id = 0;
	uint32_t result = 0;

	peer_reset_encode(&reset, body);
	EXPECT_THAT(peer_reset_decode(body, &back) == 0 && back.id == 1 && back.cntlid == 0x1234 &&
			    back.uniquifier == 9 && back.random_number == reset.random_number &&
			    back.is_exclusive && strcmp(back.host_nqn, "nqn.h") == 0 &&
			    strcmp(back.subsystem_nqn, "nqn.s") == 0,
		    "a reset, there and back");
	body[19] = 2;
	EXPECT_THAT(peer_reset_decode(body, &back) == -EPROTO, "a flag that is no flag");
	body[19] = 0;
	body[20] = 1;
	EXPECT_THAT(peer_reset_decode(body, &back) == -EPROTO, "reserved bytes");
	peer_done_encode(42, CTRL_RESET_FORBIDDEN, done);
	EXPECT_THAT(peer_done_decode(done, &id, &result) == 0 && id == 42 &&
			    result == CTRL_RESET_FORBIDDEN,
		    "an answer, there and back");
	peer_done_encode(42, CTRL_RESET_BUSY, done);
	EXPECT_THAT(peer_done_decode(done, &id, &result) == 0 && result == CTRL_RESET_BUSY,
		    "the last result of the enumeration");
	peer_done_encode(42, CTRL_RESET_BUSY + 1, done);
	EXPECT_THAT(peer_done_decode(done, &id, &result) == -EPROTO, "the number after it");
	done[8] = 0x77;
	EXPECT_THAT(peer_done_decode(done, &id, &result) == -EPROTO, "a result that there is not");
}

static void lost_hosts(void)
{
	struct lost_host lost = {.subsystem_nqn = "nqn.s",
				 .host_nqn = "nqn.h",
				 .cntlid = 0x1234,
				 .uniquifier = 9,
				 .reason = 2},
			 back;
	uint8_t body[PEER_LOST_BYTES];

	memset(lost.host_id.bytes, 7, sizeof(lost.host_id.bytes));
	peer_lost_encode(&lost, body);
	EXPECT_THAT(peer_lost_decode(body, &back) == 0 && memcmp(&lost, &back, sizeof(lost)) == 0,
		    "a lost host, there and back");
	body[20] = 1;
	EXPECT_THAT(peer_lost_decode(body, &back) == -EPROTO, "reserved bytes of a lost host");
	body[20] = 0;
	memset(body + 24, 'x', NVME_NQN_BYTES);
	EXPECT_THAT(peer_lost_decode(body, &back) == -EPROTO, "a subsystem without an end");
	memset(body + 24, 0, NVME_NQN_BYTES);
	EXPECT_THAT(peer_lost_decode(body, &back) == -EPROTO, "no subsystem");
}

static bool served_is_same(const struct peer_served *a, const struct peer_served *b)
{
	return uuid_equal(&a->uuid, &b->uuid) && a->file.device == b->file.device &&
	       a->file.inode == b->file.inode &&
	       a->file.is_block_device == b->file.is_block_device &&
	       a->size_bytes == b->size_bytes && a->block_bytes == b->block_bytes &&
	       a->differs == b->differs && a->is_served == b->is_served &&
	       a->is_refused == b->is_refused && a->since_boot_ns == b->since_boot_ns &&
	       a->since_real_ns == b->since_real_ns && a->loss == b->loss;
}

static void lists(void)
{
	struct peer_served_part part = {.generation = 5, .first = 6, .total = 8, .count = 2}, back;
	uint8_t body[PEER_SERVED_BYTES], spoilt[PEER_SERVED_BYTES];
	/* Offset, and the wrong value there. */
	static const struct {
		size_t at;
		uint8_t value;
	} spoils[] = {{0, 0}, {8, 1}, {8, 12}, {14, 2}, {16 + 62, 2}, {16 + 63, 3}, {16 + 144, 1}};

	for (unsigned i = 0; i < 2; i++) {
		part.entries[i] = (struct peer_served){.file = {11 + i, 12, i == 1},
						       .size_bytes = 1ull << 40,
						       .block_bytes = 4096,
						       .differs = 0x8001,
						       .is_served = i == 0,
						       .is_refused = i == 1,
						       .since_boot_ns = 13,
						       .since_real_ns = 14,
						       .loss = 15 + i};
		memset(part.entries[i].uuid.bytes, 3 + (int)i, sizeof(part.entries[i].uuid.bytes));
	}
	peer_served_encode(&part, body);
	EXPECT_THAT(peer_served_decode(body, &back) == 0 && back.generation == 5 &&
			    back.first == 6 && back.total == 8 && back.count == 2 &&
			    served_is_same(&part.entries[0], &back.entries[0]) &&
			    served_is_same(&part.entries[1], &back.entries[1]),
		    "the end of a list, there and back");
	for (unsigned i = 0; i < sizeof(spoils) / sizeof(spoils[0]); i++) {
		memcpy(spoilt, body, sizeof(spoilt));
		spoilt[spoils[i].at] = spoils[i].value;
		EXPECT_THAT(peer_served_decode(spoilt, &back) == -EPROTO,
			    "a list that is none (byte %zu)", spoils[i].at);
	}
	part = (struct peer_served_part){.generation = 1};
	peer_served_encode(&part, body);
	EXPECT_THAT(peer_served_decode(body, &back) == 0 && back.count == 0, "an empty list");
}

static void seen(void)
{
	uint8_t body[PEER_SEEN_BYTES];
	uint64_t generation;

	peer_seen_encode(UINT64_MAX, body);
	EXPECT_THAT(peer_seen_decode(body, &generation) == 0 && generation == UINT64_MAX,
		    "what was seen, there and back");
	body[8] = 1;
	EXPECT_THAT(peer_seen_decode(body, &generation) == -EPROTO, "reserved bytes of it");
	peer_seen_encode(0, body);
	EXPECT_THAT(peer_seen_decode(body, &generation) == -EPROTO, "no generation");
}

/* Listens at the path, and dials it as a peer's address. Returns the result of the dial. */
static int path_dial(const char *path)
{
	struct peer_addr addr = {{0}};
	struct unix_name name;
	struct net_addr net;
	int listener, folder, fd;
	int res = unix_socket_listen(path, 1, &listener, &name);

	if (res < 0)
		return res;
	text_copy(addr.path, sizeof(addr.path), path);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	res = peer_addr_to_net(&addr, &net, &folder);
	if (res == 0 && connect(fd, (struct sockaddr *)&net.storage, net.len_bytes) != 0)
		res = -errno;
	if (folder >= 0)
		close(folder);
	unix_name_remove(&name);
	close(listener);
	close(fd);
	return res;
}

/* A Unix address has 107 bytes; the paths of members may be longer. */
static void addresses(void)
{
	struct peer_addr addr = {{0}};
	char path[512];
	struct net_addr net;
	int folder, fd;

	EXPECT_EQ(0, net_addr_parse("10.0.0.1:4430", 0, &addr.addr));
	EXPECT_EQ(0, peer_addr_to_net(&addr, &net, &folder));
	EXPECT(net_addr_port(&net) == 4430 && folder == -1);
	snprintf(path, sizeof(path), "%s/a.sock", root);
	EXPECT_EQ(0, path_dial(path));
	snprintf(path, sizeof(path), "%s/%0120d", root, 0);
	EXPECT_EQ(0, mkdir(path, 0700));
	snprintf(path, sizeof(path), "%s/%0120d/a.sock", root, 0);
	EXPECT_EQ(0, path_dial(path));
	snprintf(addr.path, sizeof(addr.path), "%s/%0120d/a.sock", root, 1);
	EXPECT_EQ(-ENOENT, peer_addr_to_net(&addr, &net, &folder));
	EXPECT_EQ(-1, folder);
	/* An abstract name, which any process may take, would be answered with ECONNREFUSED. */
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	EXPECT(connect(fd, (struct sockaddr *)&net.storage, net.len_bytes) < 0 && errno == EINVAL);
	close(fd);
	snprintf(path, sizeof(path), "/%099d/%080d", 0, 0);
	EXPECT(unix_addr_fits(path) && unix_addr_fits("/a"));
	snprintf(path, sizeof(path), "/%099d/%081d", 0, 0);
	EXPECT(!unix_addr_fits(path));
}

static void proofs(void)
{
	struct peers_config config = {.name = "a", .secret_bytes = 32, .peer_count = 1};
	struct peers_config other = config;
	struct peer_transcript transcript = {{0}};
	uint8_t macs[4][PEER_MAC_BYTES], mac[PEER_MAC_BYTES], again[PEER_MAC_BYTES];
	bool differ = true;

	for (unsigned i = 0; i < 4; i++) {
		EXPECT_THAT(peer_auth_derive(&config, (enum peer_label)i, &transcript, macs[i]) ==
				    0,
			    "label %u", i);
		for (unsigned k = 0; k < i; k++)
			differ &= !peer_auth_equal(macs[i], macs[k]);
	}
	EXPECT_THAT(differ, "every label gives something else");
	peer_auth_derive(&config, PEER_LABEL_DIALER_PROOF, &transcript, again);
	EXPECT_THAT(peer_auth_equal(macs[0], again), "the same gives the same");
	transcript.bytes[sizeof(transcript.bytes) - 1] = 1;
	peer_auth_derive(&config, PEER_LABEL_DIALER_PROOF, &transcript, mac);
	EXPECT_THAT(!peer_auth_equal(mac, again), "the transcript counts to its last byte");
	other.secret[31] = 1;
	transcript.bytes[sizeof(transcript.bytes) - 1] = 0;
	peer_auth_derive(&other, PEER_LABEL_DIALER_PROOF, &transcript, mac);
	EXPECT_THAT(!peer_auth_equal(mac, again), "the secret counts to its last byte");
	EXPECT_THAT(peer_auth_nonce(mac) == 0 && peer_auth_nonce(again) == 0 &&
			    memcmp(mac, again, PEER_NONCE_BYTES) != 0,
		    "two nonces differ");
}

static void member_lists(void)
{
	struct peers_config a = {.name = "a", .index = 0, .peer_count = 1, .cntlid_last = 9};
	struct peers_config b = {.name = "b", .index = 1, .peer_count = 1, .cntlid_last = 5};
	uint8_t x[32], y[32];

	text_copy(a.peers[0].name, PEER_NAME_BYTES, "b");
	a.peers[0].index = 1;
	a.peers[0].cntlid_last = 5;
	text_copy(b.peers[0].name, PEER_NAME_BYTES, "a");
	b.peers[0].index = 0;
	b.peers[0].cntlid_last = 9;
	EXPECT_THAT(peer_auth_hash_members(&a, x) == 0 && peer_auth_hash_members(&b, y) == 0 &&
			    memcmp(x, y, 32) == 0,
		    "two members that list each other alike agree");
	b.peers[0].cntlid_last = 8;
	EXPECT_THAT(peer_auth_hash_members(&b, y) == 0 && memcmp(x, y, 32) != 0,
		    "with other ranges not");
}

int main(void)
{
	if (!root_make())
		return 1;
	TAP_RUN(addresses);
	TAP_RUN(frames);
	TAP_RUN(spoilt);
	TAP_RUN(hellos);
	TAP_RUN(pongs);
	TAP_RUN(resets);
	TAP_RUN(lost_hosts);
	TAP_RUN(lists);
	TAP_RUN(seen);
	TAP_RUN(proofs);
	TAP_RUN(member_lists);
	return root_end();
}
