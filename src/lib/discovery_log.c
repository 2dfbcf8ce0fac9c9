/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads a discovery log, on the caller's thread, which waits. NVMe Base 2.1, section 5.1.12.3.1:
 * the log is read in pieces, then its header is read again. When the generation changed meanwhile,
 * the whole log is read again.
 */
#include "lib/discovery_log.h"

#include "base/text.h"
#include "lib/session.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DISCOVERY_TRIES       10
#define DISCOVERY_PIECE_BYTES (64 * 1024)
#define DISCOVERY_ENTRIES_MAX 65536

/* State of one reading. */
struct log_reader {
	struct session *session;
	struct discovery_log *log;
	struct host_error *error;
	uint8_t *piece; /* DISCOVERY_PIECE_BYTES */
};

static int reader_get(struct log_reader *reader, uint64_t offset, void *data, uint32_t data_bytes)
{
	struct host_cmd cmd = {0};
	nvme_status status;

	host_cmd_log(&cmd, 0, LOG_DISCOVERY, offset, data, data_bytes);
	status = session_admin(reader->session, &cmd);
	if (nvme_status_is_ok(status))
		return 0;
	if (nvme_status_same(status, NVME_SC_DISCOVERY_RESTART))
		return -EAGAIN;
	reader->error->status = status;
	snprintf(reader->error->text, sizeof(reader->error->text),
		 "Get Log Page (discovery) failed: %s", nvme_status_name(status));
	return -EIO;
}

static int reader_header(struct log_reader *reader, struct discovery_header *ret_header)
{
	uint8_t bytes[LOG_DISCOVERY_HEADER_BYTES];
	int res = reader_get(reader, 0, bytes, sizeof(bytes));

	if (res == 0)
		log_discovery_header_decode(bytes, ret_header);
	return res;
}

static int reader_entries(struct log_reader *reader)
{
	const uint64_t per_piece = DISCOVERY_PIECE_BYTES / LOG_DISCOVERY_ENTRY_BYTES;
	struct discovery_log *log = reader->log;

	for (uint64_t i = 0; i < log->header.entry_count; i += per_piece) {
		uint64_t left = log->header.entry_count - i;
		uint64_t count = left < per_piece ? left : per_piece;
		int res = reader_get(reader,
				     LOG_DISCOVERY_HEADER_BYTES + i * LOG_DISCOVERY_ENTRY_BYTES,
				     reader->piece, (uint32_t)(count * LOG_DISCOVERY_ENTRY_BYTES));

		if (res != 0)
			return res;
		for (uint64_t k = 0; k < count; k++)
			log_discovery_entry_decode(reader->piece + k * LOG_DISCOVERY_ENTRY_BYTES,
						   &log->entries[i + k]);
	}
	return 0;
}

/* Reads the log once. 0, -EAGAIN when the log changed while it was read, or another -errno with a
 * text. */
static int reader_once(struct log_reader *reader)
{
	struct discovery_log *log = reader->log;
	struct discovery_header again;
	int res = reader_header(reader, &log->header);

	if (res == 0 && log->header.entry_count > DISCOVERY_ENTRIES_MAX) {
		snprintf(reader->error->text, sizeof(reader->error->text),
			 "the log claims %lu entries, which cannot be right",
			 (unsigned long)log->header.entry_count);
		res = -EPROTO;
	}
	discovery_log_free(log);
	if (res != 0)
		return res;
	log->entries = calloc(log->header.entry_count + 1, sizeof(*log->entries));
	if (log->entries == NULL) {
		snprintf(reader->error->text, sizeof(reader->error->text), "out of memory");
		return -ENOMEM;
	}
	res = reader_entries(reader);
	if (res == 0)
		res = reader_header(reader, &again);
	if (res == 0 && again.generation != log->header.generation)
		res = -EAGAIN;
	return res;
}

static int reader_run(struct log_reader *reader)
{
	int res = -EAGAIN;

	for (int tries = 0; res == -EAGAIN && tries < DISCOVERY_TRIES; tries++)
		res = reader_once(reader);
	if (res == -EAGAIN)
		snprintf(reader->error->text, sizeof(reader->error->text),
			 "the log kept changing while it was read; try again");
	return res;
}

int discovery_log_fetch(const struct host_config *config, struct discovery_log *ret_log,
			struct host_error *ret_error)
{
	struct log_reader reader = {.log = ret_log, .error = ret_error};
	int res;

	*ret_log = (struct discovery_log){0};
	reader.piece = malloc(DISCOVERY_PIECE_BYTES);
	if (reader.piece == NULL) {
		snprintf(ret_error->text, sizeof(ret_error->text), "out of memory");
		return -ENOMEM;
	}
	res = session_open(config, &reader.session, ret_error);
	if (res == 0) {
		res = reader_run(&reader);
		session_close(reader.session);
	}
	free(reader.piece);
	if (res != 0)
		discovery_log_free(ret_log);
	return res;
}

void discovery_log_free(struct discovery_log *log)
{
	free(log->entries);
	log->entries = NULL;
}

/* ---- entries -------------------------------------------------------------------------------- */

bool discovery_entry_is_usable(const struct discovery_entry *entry)
{
	return entry->subtype == DISCOVERY_NVM && host_transport_of(entry->transport) != NULL;
}

bool discovery_entry_is_left_out(const struct discovery_entry *entry, const char *nqn)
{
	return entry->subtype == DISCOVERY_NVM && host_transport_of(entry->transport) == NULL &&
	       (nqn[0] == '\0' || strcmp(entry->subsystem_nqn, nqn) == 0);
}

const char *discovery_left_out_text(const struct discovery_entry *entry,
				    char text[DISCOVERY_LEFT_OUT_BYTES])
{
	char address[2 * sizeof(entry->address)], service[2 * sizeof(entry->service)];
	char transport[32];

	if (entry->transport == DISCOVERY_RDMA)
		snprintf(transport, sizeof(transport), "rdma");
	else
		snprintf(transport, sizeof(transport), "type %u", (unsigned)entry->transport);
	snprintf(text, DISCOVERY_LEFT_OUT_BYTES,
		 "the path to %s port %s is not used: its transport is %s, and this build has "
		 "only %s",
		 text_escape(entry->address, address, sizeof(address)),
		 text_escape(entry->service, service, sizeof(service)), transport,
		 host_transport_names());
	return text;
}
