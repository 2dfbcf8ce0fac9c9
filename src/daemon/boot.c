/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The boot that the target reports; see boot.h. Control thread.
 *
 * The record is kept before a host can write. When the record cannot be kept, the reported boot is
 * the kernel's: hosts may then see a loss that did not happen, but a real loss is always seen.
 */
#include "daemon/boot.h"

#include "base/boot_id.h"
#include "base/log.h"
#include "config/members.h"

#include <openssl/evp.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BOOT_KIND      "target"
#define BOOT_KEY       "boot"
#define BOOT_LABEL     "weft boot 1" /* hashed with the boot ID: no other program's hash is equal */
#define RECORD_VERSION 1

/* Layout of the record in the state store. */
struct record_bytes {
	uint8_t version;
	uint8_t is_flushed;
	uint8_t kernel[IDENTIFY_BOOT_BYTES];
	uint8_t boot[IDENTIFY_BOOT_BYTES];
};

static bool id_hash(const struct uuid *id, const char *name, uint8_t ret_hash[IDENTIFY_BOOT_BYTES])
{
	uint8_t text[sizeof(BOOT_LABEL) + sizeof(id->bytes) + PEER_NAME_BYTES];
	size_t name_bytes = strnlen(name, PEER_NAME_BYTES);
	uint8_t digest[EVP_MAX_MD_SIZE];
	unsigned digest_bytes;

	memcpy(text, BOOT_LABEL, sizeof(BOOT_LABEL));
	memcpy(text + sizeof(BOOT_LABEL), id->bytes, sizeof(id->bytes));
	memcpy(text + sizeof(text) - PEER_NAME_BYTES, name, name_bytes);
	if (!EVP_Digest(text, sizeof(text) - PEER_NAME_BYTES + name_bytes, digest, &digest_bytes,
			EVP_sha256(), NULL))
		return false;
	memcpy(ret_hash, digest, IDENTIFY_BOOT_BYTES);
	return true;
}

void boot_decide(const struct boot_record *kept, const struct uuid *kernel, bool is_clustered,
		 struct boot_record *ret_record)
{
	static const uint8_t none[IDENTIFY_BOOT_BYTES];

	*ret_record = (struct boot_record){0};
	/* The previous start could not read its boot ID, and reported no boot. */
	if (kept && memcmp(kept->kernel, none, sizeof(none)) == 0)
		kept = NULL;
	ret_record->was_flushed = kept && kept->is_flushed;
	if (uuid_is_nil(kernel) || !id_hash(kernel, "", ret_record->kernel))
		return;
	/* Other members on this kernel write through the same page cache, whether or not this
	 * process flushed. */
	if (is_clustered)
		kept = NULL;
	/* The page cache is the one of the previous start, or had nothing left to lose. */
	if (kept && (kept->is_flushed ||
		     memcmp(kept->kernel, ret_record->kernel, IDENTIFY_BOOT_BYTES) == 0))
		memcpy(ret_record->boot, kept->boot, IDENTIFY_BOOT_BYTES);
	else
		memcpy(ret_record->boot, ret_record->kernel, IDENTIFY_BOOT_BYTES);
}

static bool record_load(struct store *store, struct boot_record *ret_record)
{
	struct record_bytes bytes;
	size_t len_bytes;
	void *value;
	bool is_there = false;

	if (store_recall(store, BOOT_KIND, BOOT_KEY, &value, &len_bytes) == 0 &&
	    len_bytes == sizeof(bytes)) {
		memcpy(&bytes, value, sizeof(bytes));
		is_there = bytes.version == RECORD_VERSION;
		ret_record->is_flushed = bytes.is_flushed == 1;
		memcpy(ret_record->kernel, bytes.kernel, sizeof(bytes.kernel));
		memcpy(ret_record->boot, bytes.boot, sizeof(bytes.boot));
	}
	free(value);
	return is_there;
}

static int record_keep(struct store *store, const struct boot_record *record)
{
	struct record_bytes bytes = {.version = RECORD_VERSION, .is_flushed = record->is_flushed};

	memcpy(bytes.kernel, record->kernel, sizeof(bytes.kernel));
	memcpy(bytes.boot, record->boot, sizeof(bytes.boot));
	return store_keep(store, BOOT_KIND, BOOT_KEY, &bytes, sizeof(bytes));
}

void boot_begin(struct store *store, bool is_clustered, struct boot_record *ret_record)
{
	struct boot_record kept;
	struct uuid kernel;
	bool is_kept = record_load(store, &kept);
	int res;

	boot_id_read(&kernel);
	boot_decide(is_kept ? &kept : NULL, &kernel, is_clustered, ret_record);
	if (uuid_is_nil(&kernel))
		log_warn("control",
			 "cannot read " BOOT_ID_PATH ": hosts are not notified when unflushed "
			 "writes are lost in a power failure");
	res = record_keep(store, ret_record);
	if (res == 0)
		return;
	log_warn("control",
		 "cannot save the boot ID of this machine: %s; after a restart of the machine "
		 "hosts may be notified of lost writes although none were lost",
		 strerror(-res));
	boot_decide(NULL, &kernel, is_clustered, ret_record);
}

uint64_t boot_loss_source(const struct uuid *state, const char *member)
{
	uint8_t hash[IDENTIFY_BOOT_BYTES];
	uint64_t source;

	if (!id_hash(state, member ? member : "", hash))
		return 0;
	memcpy(&source, hash, sizeof(source));
	return source;
}

void boot_end_flushed(struct store *store, struct boot_record *record)
{
	int res;

	record->is_flushed = true;
	res = record_keep(store, record);
	if (res < 0)
		log_warn("control",
			 "cannot save that all media were flushed: %s; after a restart of the "
			 "machine hosts may be notified of lost writes although none were lost",
			 strerror(-res));
}
