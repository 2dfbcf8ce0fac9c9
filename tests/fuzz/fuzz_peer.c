/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzzes the decoder of frames between members of a cluster. Checked: a decoded frame encodes to
 * the same bytes, because every message has exactly one encoding.
 */
#include "base/check.h"
#include "cluster/peer_message.h"

#include <string.h>

static void body_check(const struct peer_frame *frame)
{
	uint8_t body[PEER_FRAME_MAX];
	struct peer_hello hello;
	struct peer_reset reset;
	struct peer_pulse pulse;
	struct lost_host lost;
	struct peer_served_part part;
	uint64_t id;
	uint32_t result;

	if (frame->type == PEER_HELLO || frame->type == PEER_CHALLENGE) {
		if (peer_hello_decode(frame->body, &hello) < 0)
			return;
		peer_hello_encode(&hello, body);
	} else if (frame->type == PEER_PONG) {
		if (peer_pong_decode(frame->body, &pulse) < 0)
			return;
		peer_pong_encode(&pulse, body);
	} else if (frame->type == PEER_RESET) {
		if (peer_reset_decode(frame->body, &reset) < 0)
			return;
		peer_reset_encode(&reset, body);
	} else if (frame->type == PEER_RESET_DONE) {
		if (peer_done_decode(frame->body, &id, &result) < 0)
			return;
		peer_done_encode(id, result, body);
	} else if (frame->type == PEER_LOST_HOST) {
		if (peer_lost_decode(frame->body, &lost) < 0)
			return;
		peer_lost_encode(&lost, body);
	} else if (frame->type == PEER_SERVED) {
		if (peer_served_decode(frame->body, &part) < 0)
			return;
		peer_served_encode(&part, body);
	} else if (frame->type == PEER_SEEN) {
		if (peer_seen_decode(frame->body, &id) < 0)
			return;
		peer_seen_encode(id, body);
	} else {
		CHECK(frame->body_bytes == 0);
		return;
	}
	CHECK(memcmp(body, frame->body, frame->body_bytes) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	while (size > 0) {
		uint8_t again[PEER_FRAME_MAX];
		struct peer_frame frame;
		const char *error;
		int used = peer_frame_decode(data, size, &frame, &error);
		size_t bytes;

		CHECK((used < 0) == (error != NULL));
		if (used <= 0)
			return 0;
		CHECK((size_t)used <= size && used <= PEER_FRAME_MAX);
		bytes = peer_frame_encode(frame.type, frame.number, frame.body, again);
		CHECK(bytes == (size_t)used && memcmp(again, data, frame.signed_bytes) == 0);
		body_check(&frame);
		data += used;
		size -= (size_t)used;
	}
	return 0;
}
