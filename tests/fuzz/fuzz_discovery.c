/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzzes the reader of discovery logs, against a controller whose log changes, shrinks, contains
 * any values or fails while it is read in pieces. This file implements the session (lib/session.h):
 * each Get Log Page is answered from the input.
 *
 * Input: per command a byte that chooses, then its bytes; entries follow. Checked: the reader ends,
 * and every name that it returns is terminated. One thread.
 */
#include "base/check.h"
#include "lib/discovery_log.h"
#include "lib/session.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size);

static const uint8_t *at;
static size_t left;
static unsigned commands, opens, closes;
static uint64_t generation;
static uint64_t entry_count;

static uint8_t next8(void)
{
	if (left == 0)
		return 0;
	left--;
	return *at++;
}

int session_open(const struct host_config *config, struct session **ret_session,
		 struct host_error *ret_error)
{
	if (next8() == 255)
		return -1;
	opens++;
	*ret_session = (struct session *)&opens;
	return 0;
}

void session_close(struct session *session)
{
	closes++;
}

static void header_answer(uint8_t choice, uint8_t *data)
{
	struct discovery_header header;

	if (choice & 1)
		generation++;
	if (choice & 2)
		entry_count = next8();
	if (choice & 4)
		entry_count = (uint64_t)(next8() + 1) << (next8() % 64);
	/* Few entries, or more than the reader accepts; numbers in between only take long. */
	if (entry_count > 1024 && entry_count <= 65536)
		entry_count = 1024;
	header = (struct discovery_header){generation, entry_count, next8()};
	log_discovery_header_encode(&header, data);
}

nvme_status session_admin(struct session *session, struct host_cmd *cmd)
{
	uint8_t choice = next8();
	struct log_cmd log;

	commands++;
	CHECK(closes == 0 && cmd->data != NULL);
	log_cmd_decode(&cmd->sqe, &log);
	CHECK(log.log_id == LOG_DISCOVERY && log.len_bytes == cmd->data_bytes);
	if (choice > 240)
		return choice > 248 ? NVME_SC_DISCOVERY_RESTART : NVME_SC_INTERNAL;
	if (log.offset == 0) {
		CHECK(cmd->data_bytes == LOG_DISCOVERY_HEADER_BYTES);
		header_answer(choice, cmd->data);
		return NVME_SC_SUCCESS;
	}
	memset(cmd->data, choice, cmd->data_bytes);
	if (left > 0)
		memcpy(cmd->data, at, left < cmd->data_bytes ? left : cmd->data_bytes);
	return NVME_SC_SUCCESS;
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size)
{
	struct host_config config = {0};
	struct host_error error = {0};
	struct discovery_log log;

	at = input;
	left = size;
	commands = opens = closes = 0;
	generation = entry_count = 0;
	if (discovery_log_fetch(&config, &log, &error) == 0) {
		for (uint64_t i = 0; i < log.header.entry_count; i++) {
			const struct discovery_entry *entry = &log.entries[i];

			CHECK(memchr(entry->subsystem_nqn, 0, sizeof(entry->subsystem_nqn)) &&
			      memchr(entry->address, 0, sizeof(entry->address)) &&
			      memchr(entry->service, 0, sizeof(entry->service)));
		}
		discovery_log_free(&log);
	} else {
		CHECK(memchr(error.text, 0, sizeof(error.text)) != NULL);
	}
	CHECK(opens == closes && commands < 12000);
	return 0;
}
