/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Namespace Management, Namespace Attachment and Format NVM as plain values. NVMe Base 2.1,
 * sections 5.1.20, 5.1.21 and 5.1.10; NVM Command Set 1.1, section 4.1.6 (what a host specifies).
 */
#ifndef WEFT_WIRE_NS_MANAGE_H
#define WEFT_WIRE_NS_MANAGE_H

#include "wire/nvme.h"

#include <stdbool.h>

enum ns_manage_select {
	NS_MANAGE_CREATE = 0,
	NS_MANAGE_DELETE = 1,
};

enum ns_attach_select {
	NS_ATTACH = 0,
	NS_DETACH = 1,
};

#define CTRL_LIST_MAX 2047 /* identifiers; with the count before them they fill a page */

/* CDW10 and CDW11 of Namespace Management and Namespace Attachment. Reserved bits are ignored. */
struct ns_manage_cmd {
	uint8_t select;
	uint8_t csi;
};

void ns_manage_cmd_decode(const struct nvme_sqe *sqe, struct ns_manage_cmd *ret_cmd);
void ns_manage_cmd_encode(struct nvme_sqe *sqe, const struct ns_manage_cmd *cmd);

/* What a host specifies for a namespace that it creates. */
struct ns_create {
	uint64_t block_count;     /* NSZE */
	uint64_t capacity;        /* NCAP, blocks */
	uint8_t format;           /* FLBAS: index of the LBA format */
	bool has_inline_meta;     /* FLBAS bit 4: metadata at the end of a block */
	uint8_t protection;       /* DPS */
	uint8_t sharing;          /* NMIC */
	uint32_t ana_group;       /* 0: the controller's choice */
	uint16_t nvm_set;         /* NVMSETID */
	uint16_t endurance_group; /* ENDGID */
	bool has_more;            /* LBSTM or placement handles, for features that weft lacks */
};

void ns_create_decode(const uint8_t page[NVME_PAGE_BYTES], struct ns_create *ret_create);
void ns_create_encode(const struct ns_create *create, uint8_t page[NVME_PAGE_BYTES]);

/* Returns the number of identifiers, or -1 when the list claims more than fit into the page. */
int ctrl_list_decode(const uint8_t page[NVME_PAGE_BYTES], uint16_t ret_ids[CTRL_LIST_MAX]);
void ctrl_list_encode(const uint16_t *ids, unsigned count, uint8_t page[NVME_PAGE_BYTES]);

enum format_erase {
	FORMAT_ERASE_NONE = 0,
	FORMAT_ERASE_USER_DATA = 1,
	FORMAT_ERASE_CRYPTOGRAPHIC = 2,
};

/* Format NVM, CDW10. */
struct format_cmd {
	uint8_t format; /* LBAFL (lower 4 bits) and LBAFU */
	bool has_inline_meta;
	uint8_t protection;        /* PI */
	bool has_protection_first; /* PIL */
	uint8_t erase;             /* SES: enum format_erase, or reserved */
};

void format_cmd_decode(const struct nvme_sqe *sqe, struct format_cmd *ret_cmd);
void format_cmd_encode(struct nvme_sqe *sqe, const struct format_cmd *cmd);

#endif
