/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The text that names a backing store, taken apart: "KIND:WHAT[,OPTION…]".
 *
 * Pure text work on the control thread: nothing is opened here, so that a configuration can be
 * checked without touching the stores it names. Also the constructors of each kind of medium,
 * which media.c chooses among.
 */
#ifndef WEFT_MEDIA_SPEC_H
#define WEFT_MEDIA_SPEC_H

#include "media/fault_rule.h"
#include "media/media.h"

#define MEDIA_BLOCK_DEFAULT 4096u
#define MEDIA_SPEC_NEST_MAX 4 /* fault media inside fault media */

enum media_spec_kind {
	MEDIA_SPEC_FILE,
	MEDIA_SPEC_MEM,
	MEDIA_SPEC_NULL,
	MEDIA_SPEC_FAULT,
};

struct media_spec {
	enum media_spec_kind kind;
	char *text;           /* the whole of it */
	char *path;           /* file */
	uint64_t size_bytes;  /* 0: not given */
	uint32_t block_bytes; /* 0: not given, else 512 or 4096 */
	bool is_read_only;
	bool wants_huge_pages;
	struct fault_rule_text *rules; /* fault */
	unsigned rule_count;
	struct media_spec *inner;
	/* Not of the text: other processes serve it too, and we are this member of them. */
	bool is_shared;
	unsigned member;
	const struct media_record *known; /* of struct media_terms; likewise the next three */
	bool is_recreated;
	bool must_not_wait;
	char *told;
};

/* On 0 the caller frees ret_spec with media_spec_free; on -errno there is nothing to free. */
int media_spec_parse(const char *text, struct media_spec *ret_spec, struct media_error *ret_error);
void media_spec_free(struct media_spec *spec);

/* Fills the text (ret_error may be NULL) and returns `code`, so that "return media_fail(…)". */
int media_fail(struct media_error *ret_error, int code, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* One constructor per kind; each sets everything in struct media except spec. */
int media_file_open(const struct media_spec *spec, struct media **ret_media,
		    struct media_error *ret_error);
int media_mem_open(const struct media_spec *spec, struct media **ret_media,
		   struct media_error *ret_error);
int media_null_open(const struct media_spec *spec, struct media **ret_media,
		    struct media_error *ret_error);
/* The medium that a fault medium wraps; NULL when it is none. */
struct media *media_fault_inner(const struct media *media);
/* Takes `inner` over when it succeeds; closing the fault medium closes it. */
int media_fault_open(const struct media_spec *spec, struct media *inner, struct media **ret_media,
		     struct media_error *ret_error);

#endif
