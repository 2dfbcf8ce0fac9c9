/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The frames that members of a cluster exchange, encoded and decoded. Pure: no socket, clock, key
 * or allocation; any thread.
 *
 * Decoding is strict: a frame whose size, reserved bytes or strings differ from what the encoder
 * would write is an error, so that every message has exactly one encoding.
 */
#include "cluster/peer_message.h"

#include "base/check.h"
#include "base/le.h"
#include "base/text.h"
#include "target/ctrl_reset.h"

#include <errno.h>
#include <string.h>

#define PEER_MAGIC 0x72656570u /* "peer" */

struct peer_header_wire {
	le32 magic;
	le16 version;
	le16 type;
	le32 body_bytes;
	le32 reserved;
	le64 number;
};

struct peer_hello_wire {
	char from[PEER_NAME_BYTES];
	char to[PEER_NAME_BYTES];
	uint8_t members[32];
	uint8_t nonce[PEER_NONCE_BYTES];
	uint8_t boot_id[16];
	le32 pid;
	le32 reserved;
};

struct peer_pong_wire {
	le32 stuck_ms;
	le32 reactor;
	uint8_t reserved[8];
};

struct peer_reset_wire {
	le64 id;
	le64 random_number;
	le16 cntlid;
	uint8_t uniquifier;
	uint8_t is_exclusive; /* 0 or 1 */
	uint8_t reserved[4];
	uint8_t host_id[16];
	char subsystem_nqn[NVME_NQN_BYTES];
	char host_nqn[NVME_NQN_BYTES];
};

struct peer_done_wire {
	le64 id;
	le32 result;
	le32 reserved;
};

struct peer_lost_wire {
	uint8_t host_id[16];
	le16 cntlid;
	uint8_t uniquifier;
	uint8_t reason;
	uint8_t reserved[4];
	char subsystem_nqn[NVME_NQN_BYTES];
	char host_nqn[NVME_NQN_BYTES];
};

enum served_state {
	SERVED_NOT,
	SERVED_TO_HOSTS,
	SERVED_REFUSED,
};

struct peer_served_wire {
	uint8_t uuid[16];
	le64 device;
	le64 inode;
	le64 size_bytes;
	le64 since_boot_ns;
	le64 since_real_ns;
	le32 block_bytes;
	le16 differs;
	uint8_t is_block_device; /* 0 or 1 */
	uint8_t state;           /* enum served_state */
	le64 loss;
};

struct peer_list_wire {
	le64 generation;
	le32 first;
	le32 total;
	struct peer_served_wire entries[PEER_SERVED_ENTRIES];
};

struct peer_seen_wire {
	le64 generation;
	le64 reserved;
};

_Static_assert(sizeof(struct peer_list_wire) == PEER_SERVED_BYTES, "layout");
_Static_assert(sizeof(struct peer_seen_wire) == PEER_SEEN_BYTES, "layout");
_Static_assert(PEERS_MAX < 16, "a bit of each member");
_Static_assert(sizeof(struct peer_header_wire) == PEER_HEADER_BYTES, "layout");
_Static_assert(sizeof(struct peer_hello_wire) == PEER_HELLO_BYTES, "layout");
_Static_assert(sizeof(struct peer_pong_wire) == PEER_PONG_BYTES, "layout");
_Static_assert(sizeof(struct peer_reset_wire) == PEER_RESET_BYTES, "layout");
_Static_assert(sizeof(struct peer_done_wire) == PEER_DONE_BYTES, "layout");
_Static_assert(sizeof(struct peer_lost_wire) == PEER_LOST_BYTES, "layout");

static bool message_type_is_known(unsigned type)
{
	return type >= PEER_HELLO && type <= PEER_SEEN;
}

static bool type_is_numbered(enum peer_message type)
{
	return type >= PEER_PING;
}

size_t peer_body_bytes(enum peer_message type)
{
	switch (type) {
	case PEER_HELLO:
	case PEER_CHALLENGE:
		return PEER_HELLO_BYTES;
	case PEER_PONG:
		return PEER_PONG_BYTES;
	case PEER_RESET:
		return PEER_RESET_BYTES;
	case PEER_RESET_DONE:
		return PEER_DONE_BYTES;
	case PEER_LOST_HOST:
		return PEER_LOST_BYTES;
	case PEER_SERVED:
		return PEER_SERVED_BYTES;
	case PEER_SEEN:
		return PEER_SEEN_BYTES;
	case PEER_PROOF:
	case PEER_WELCOME:
	case PEER_PING:
		break;
	}
	return 0;
}

/* NULL when the header is valid. */
static const char *header_problem(const struct peer_header_wire *wire)
{
	unsigned type = le16_get(wire->type);

	if (le32_get(wire->magic) != PEER_MAGIC)
		return "not a message of the cluster protocol";
	if (le16_get(wire->version) != PEER_PROTOCOL_VERSION)
		return "another version of the cluster protocol; update all members";
	if (!message_type_is_known(type))
		return "unknown message type";
	if (le32_get(wire->body_bytes) != peer_body_bytes((enum peer_message)type))
		return "wrong message size";
	if (le32_get(wire->reserved) != 0)
		return "reserved bytes are set";
	if ((le64_get(wire->number) != 0) != type_is_numbered((enum peer_message)type))
		return "wrong message number";
	return NULL;
}

int peer_frame_decode(const uint8_t *bytes, size_t len_bytes, struct peer_frame *ret_frame,
		      const char **ret_error)
{
	struct peer_header_wire wire;
	size_t body_bytes, total;

	*ret_error = NULL;
	if (len_bytes < sizeof(wire))
		return 0;
	memcpy(&wire, bytes, sizeof(wire));
	*ret_error = header_problem(&wire);
	if (*ret_error)
		return -EPROTO;
	body_bytes = peer_body_bytes((enum peer_message)le16_get(wire.type));
	total = sizeof(wire) + body_bytes + PEER_MAC_BYTES;
	if (len_bytes < total)
		return 0;
	*ret_frame = (struct peer_frame){
		.type = (enum peer_message)le16_get(wire.type),
		.number = le64_get(wire.number),
		.body_bytes = body_bytes,
		.signed_ = bytes,
		.signed_bytes = sizeof(wire) + body_bytes,
		.body = bytes + sizeof(wire),
		.mac = bytes + sizeof(wire) + body_bytes,
	};
	return (int)total;
}

size_t peer_frame_encode(enum peer_message type, uint64_t number, const uint8_t *body,
			 uint8_t bytes[PEER_FRAME_MAX])
{
	size_t body_bytes = peer_body_bytes(type);
	const struct peer_header_wire wire = {
		.magic = le32_of(PEER_MAGIC),
		.version = le16_of(PEER_PROTOCOL_VERSION),
		.type = le16_of((uint16_t)type),
		.body_bytes = le32_of((uint32_t)body_bytes),
		.number = le64_of(number),
	};

	CHECK((number != 0) == type_is_numbered(type));
	memset(bytes, 0, PEER_FRAME_MAX);
	memcpy(bytes, &wire, sizeof(wire));
	if (body)
		memcpy(bytes + sizeof(wire), body, body_bytes);
	return sizeof(wire) + body_bytes + PEER_MAC_BYTES;
}

/* Whether the string is not empty, ends with a zero byte, and only zeroes follow. */
static bool text_is_good(const char *text, size_t text_bytes)
{
	size_t len = strnlen(text, text_bytes);

	if (len == 0 || len == text_bytes)
		return false;
	for (size_t i = len; i < text_bytes; i++) {
		if (text[i] != 0)
			return false;
	}
	return true;
}

void peer_hello_encode(const struct peer_hello *hello, uint8_t body[PEER_HELLO_BYTES])
{
	struct peer_hello_wire wire = {.pid = le32_of(hello->pid)};

	text_copy(wire.from, sizeof(wire.from), hello->from);
	text_copy(wire.to, sizeof(wire.to), hello->to);
	memcpy(wire.members, hello->members, sizeof(wire.members));
	memcpy(wire.nonce, hello->nonce, sizeof(wire.nonce));
	memcpy(wire.boot_id, hello->boot_id.bytes, sizeof(wire.boot_id));
	memcpy(body, &wire, sizeof(wire));
}

int peer_hello_decode(const uint8_t body[PEER_HELLO_BYTES], struct peer_hello *ret_hello)
{
	struct peer_hello_wire wire;

	memcpy(&wire, body, sizeof(wire));
	if (!text_is_good(wire.from, sizeof(wire.from)) ||
	    !text_is_good(wire.to, sizeof(wire.to)) || le32_get(wire.reserved) != 0)
		return -EPROTO;
	memcpy(ret_hello->from, wire.from, sizeof(wire.from));
	memcpy(ret_hello->to, wire.to, sizeof(wire.to));
	memcpy(ret_hello->members, wire.members, sizeof(wire.members));
	memcpy(ret_hello->nonce, wire.nonce, sizeof(wire.nonce));
	memcpy(ret_hello->boot_id.bytes, wire.boot_id, sizeof(wire.boot_id));
	ret_hello->pid = le32_get(wire.pid);
	return 0;
}

void peer_reset_encode(const struct peer_reset *reset, uint8_t body[PEER_RESET_BYTES])
{
	struct peer_reset_wire wire = {
		.id = le64_of(reset->id),
		.random_number = le64_of(reset->random_number),
		.cntlid = le16_of(reset->cntlid),
		.uniquifier = reset->uniquifier,
		.is_exclusive = reset->is_exclusive,
	};

	memcpy(wire.host_id, reset->host_id.bytes, sizeof(wire.host_id));
	text_copy(wire.subsystem_nqn, sizeof(wire.subsystem_nqn), reset->subsystem_nqn);
	text_copy(wire.host_nqn, sizeof(wire.host_nqn), reset->host_nqn);
	memcpy(body, &wire, sizeof(wire));
}

int peer_reset_decode(const uint8_t body[PEER_RESET_BYTES], struct peer_reset *ret_reset)
{
	static const uint8_t zeroes[sizeof(((struct peer_reset_wire *)0)->reserved)];
	struct peer_reset_wire wire;

	memcpy(&wire, body, sizeof(wire));
	if (!text_is_good(wire.subsystem_nqn, sizeof(wire.subsystem_nqn)) ||
	    !text_is_good(wire.host_nqn, sizeof(wire.host_nqn)) || wire.is_exclusive > 1 ||
	    memcmp(wire.reserved, zeroes, sizeof(zeroes)) != 0)
		return -EPROTO;
	*ret_reset = (struct peer_reset){
		.id = le64_get(wire.id),
		.random_number = le64_get(wire.random_number),
		.cntlid = le16_get(wire.cntlid),
		.uniquifier = wire.uniquifier,
		.is_exclusive = wire.is_exclusive == 1,
	};
	memcpy(ret_reset->host_id.bytes, wire.host_id, sizeof(wire.host_id));
	memcpy(ret_reset->subsystem_nqn, wire.subsystem_nqn, sizeof(wire.subsystem_nqn));
	memcpy(ret_reset->host_nqn, wire.host_nqn, sizeof(wire.host_nqn));
	return 0;
}

void peer_pong_encode(const struct peer_pulse *pulse, uint8_t body[PEER_PONG_BYTES])
{
	const struct peer_pong_wire wire = {.stuck_ms = le32_of(pulse->stuck_ms),
					    .reactor = le32_of(pulse->reactor)};

	memcpy(body, &wire, sizeof(wire));
}

int peer_pong_decode(const uint8_t body[PEER_PONG_BYTES], struct peer_pulse *ret_pulse)
{
	static const uint8_t zeroes[8];
	struct peer_pong_wire wire;

	memcpy(&wire, body, sizeof(wire));
	if (memcmp(wire.reserved, zeroes, sizeof(zeroes)) != 0)
		return -EPROTO;
	ret_pulse->stuck_ms = le32_get(wire.stuck_ms);
	ret_pulse->reactor = le32_get(wire.reactor);
	return 0;
}

void peer_done_encode(uint64_t id, uint32_t result, uint8_t body[PEER_DONE_BYTES])
{
	const struct peer_done_wire wire = {.id = le64_of(id), .result = le32_of(result)};

	memcpy(body, &wire, sizeof(wire));
}

int peer_done_decode(const uint8_t body[PEER_DONE_BYTES], uint64_t *ret_id, uint32_t *ret_result)
{
	struct peer_done_wire wire;

	memcpy(&wire, body, sizeof(wire));
	if (le32_get(wire.reserved) != 0 || le32_get(wire.result) > CTRL_RESET_BUSY)
		return -EPROTO;
	*ret_id = le64_get(wire.id);
	*ret_result = le32_get(wire.result);
	return 0;
}

void peer_lost_encode(const struct lost_host *lost, uint8_t body[PEER_LOST_BYTES])
{
	struct peer_lost_wire wire = {
		.cntlid = le16_of(lost->cntlid),
		.uniquifier = lost->uniquifier,
		.reason = lost->reason,
	};

	memcpy(wire.host_id, lost->host_id.bytes, sizeof(wire.host_id));
	text_copy(wire.subsystem_nqn, sizeof(wire.subsystem_nqn), lost->subsystem_nqn);
	text_copy(wire.host_nqn, sizeof(wire.host_nqn), lost->host_nqn);
	memcpy(body, &wire, sizeof(wire));
}

int peer_lost_decode(const uint8_t body[PEER_LOST_BYTES], struct lost_host *ret_lost)
{
	static const uint8_t zeroes[sizeof(((struct peer_lost_wire *)0)->reserved)];
	struct peer_lost_wire wire;

	memcpy(&wire, body, sizeof(wire));
	if (!text_is_good(wire.subsystem_nqn, sizeof(wire.subsystem_nqn)) ||
	    !text_is_good(wire.host_nqn, sizeof(wire.host_nqn)) ||
	    memcmp(wire.reserved, zeroes, sizeof(zeroes)) != 0)
		return -EPROTO;
	*ret_lost = (struct lost_host){
		.cntlid = le16_get(wire.cntlid),
		.uniquifier = wire.uniquifier,
		.reason = wire.reason,
	};
	memcpy(ret_lost->host_id.bytes, wire.host_id, sizeof(wire.host_id));
	memcpy(ret_lost->subsystem_nqn, wire.subsystem_nqn, sizeof(wire.subsystem_nqn));
	memcpy(ret_lost->host_nqn, wire.host_nqn, sizeof(wire.host_nqn));
	return 0;
}

static unsigned part_count(uint32_t first, uint32_t total)
{
	uint32_t left = total - first;

	return left < PEER_SERVED_ENTRIES ? left : PEER_SERVED_ENTRIES;
}

void peer_served_encode(const struct peer_served_part *part, uint8_t body[PEER_SERVED_BYTES])
{
	struct peer_list_wire wire = {.generation = le64_of(part->generation),
				      .first = le32_of(part->first),
				      .total = le32_of(part->total)};

	CHECK(part->count == part_count(part->first, part->total));
	for (unsigned i = 0; i < part->count; i++) {
		const struct peer_served *entry = &part->entries[i];

		wire.entries[i] = (struct peer_served_wire){
			.device = le64_of(entry->file.device),
			.inode = le64_of(entry->file.inode),
			.size_bytes = le64_of(entry->size_bytes),
			.since_boot_ns = le64_of(entry->since_boot_ns),
			.since_real_ns = le64_of(entry->since_real_ns),
			.loss = le64_of(entry->loss),
			.block_bytes = le32_of(entry->block_bytes),
			.differs = le16_of(entry->differs),
			.is_block_device = entry->file.is_block_device,
			.state = entry->is_served    ? SERVED_TO_HOSTS
				 : entry->is_refused ? SERVED_REFUSED
						     : SERVED_NOT,
		};
		memcpy(wire.entries[i].uuid, entry->uuid.bytes, sizeof(entry->uuid.bytes));
	}
	memcpy(body, &wire, sizeof(wire));
}

static int served_decode(const struct peer_served_wire *wire, struct peer_served *ret_entry)
{
	if (wire->is_block_device > 1 || wire->state > SERVED_REFUSED)
		return -EPROTO;
	*ret_entry = (struct peer_served){
		.file = {.device = le64_get(wire->device),
			 .inode = le64_get(wire->inode),
			 .is_block_device = wire->is_block_device == 1},
		.size_bytes = le64_get(wire->size_bytes),
		.block_bytes = le32_get(wire->block_bytes),
		.differs = le16_get(wire->differs),
		.is_served = wire->state == SERVED_TO_HOSTS,
		.is_refused = wire->state == SERVED_REFUSED,
		.since_boot_ns = le64_get(wire->since_boot_ns),
		.since_real_ns = le64_get(wire->since_real_ns),
		.loss = le64_get(wire->loss),
	};
	memcpy(ret_entry->uuid.bytes, wire->uuid, sizeof(wire->uuid));
	return 0;
}

int peer_served_decode(const uint8_t body[PEER_SERVED_BYTES], struct peer_served_part *ret_part)
{
	static const struct peer_served_wire none;
	struct peer_list_wire wire;

	memcpy(&wire, body, sizeof(wire));
	*ret_part = (struct peer_served_part){.generation = le64_get(wire.generation),
					      .first = le32_get(wire.first),
					      .total = le32_get(wire.total)};
	/* An empty list is one part without entries. */
	if (ret_part->generation == 0 || ret_part->total > PEER_SERVED_MAX ||
	    ret_part->first % PEER_SERVED_ENTRIES != 0 ||
	    (ret_part->first > 0 && ret_part->first >= ret_part->total))
		return -EPROTO;
	ret_part->count = part_count(ret_part->first, ret_part->total);
	for (unsigned i = 0; i < PEER_SERVED_ENTRIES; i++) {
		if (i >= ret_part->count
			    ? memcmp(&wire.entries[i], &none, sizeof(none)) != 0
			    : served_decode(&wire.entries[i], &ret_part->entries[i]) < 0)
			return -EPROTO;
	}
	return 0;
}

void peer_seen_encode(uint64_t generation, uint8_t body[PEER_SEEN_BYTES])
{
	const struct peer_seen_wire wire = {.generation = le64_of(generation)};

	memcpy(body, &wire, sizeof(wire));
}

int peer_seen_decode(const uint8_t body[PEER_SEEN_BYTES], uint64_t *ret_generation)
{
	struct peer_seen_wire wire;

	memcpy(&wire, body, sizeof(wire));
	*ret_generation = le64_get(wire.generation);
	return le64_get(wire.reserved) == 0 && *ret_generation != 0 ? 0 : -EPROTO;
}
