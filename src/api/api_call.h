/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One call of the REST API, from routing to its answer, and what the handlers in api_*.c share.
 *
 * Control reactor only; private to api/api*.c. A handler must end with exactly one of api_answer*,
 * api_fail* or api_change, which frees the call, maybe later.
 */
#ifndef WEFT_API_API_CALL_H
#define WEFT_API_API_CALL_H

#include "api/api.h"
#include "api/http.h"
#include "config/config.h"
#include "config/document.h"
#include "daemon/daemon.h"

#include <jansson.h>

#define API_PARAMS_MAX  3
#define API_PARAM_BYTES 1024 /* after decoding; more than any name may have */

struct config_object;

struct api {
	struct daemon *daemon;
	struct http_server *server;
	uint64_t started_ns;
	bool is_stopping;
	void (*stopped)(void *arg);
	void *stopped_arg;
};

struct api_call {
	struct api *api;
	struct http_request *request;
	const struct api_route *route;
	char params[API_PARAMS_MAX][API_PARAM_BYTES]; /* decoded, in the order of the pattern */
	json_t *body;                                 /* NULL: none */
	bool is_dry_run;
	bool is_apply;
	bool deletes_data;            /* delete the file of the namespace too */
	bool is_forced;               /* as in struct change */
	char origin[64];              /* for log and audit; empty: "rest" */
	uint32_t limit;               /* entries of a list; 0: not given */
	unsigned json_losses;         /* json_whole_losses when the call began */
	uint64_t expected_generation; /* If-Match; 0: any */
	uint32_t number;              /* the last number in the path: NSID, port or ANA group */
	/* Used by api_change. */
	int (*edit)(struct api_call *call, json_t *document, struct config_errors *errors);
	int edit_res;
	bool has_edited; /* edit was called and succeeded */
	char note[480];  /* from the edit, for the answer; empty: none */
	json_t *extra;   /* added to the answer of a change; NULL: nothing */
	char *location;  /* path of what the change made; NULL: none */
	/* Called when the change is in force and kept, before the next change begins and before the
	 * answer. NULL: nothing to do. */
	void (*changed)(struct api_call *call);
	struct manage_file
		*file; /* file of a removed namespace whose data are given up; else NULL */
};

/* ---- answers --------------------------------------------------------------------------------- */

/* Answers 200 with the generation as ETag. taken_json NULL: out of memory. */
void api_answer(struct api_call *call, json_t *taken_json);
void api_answer_status(struct api_call *call, int status, json_t *taken_json);
/* Answers with problem details: "type", "title", "status", "detail", "error" and "errors". */
void api_fail(struct api_call *call, int status, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
void api_fail_errors(struct api_call *call, int status, const char *error,
		     const struct config_errors *errors);
void api_call_free(struct api_call *call);
/* The subsystem in the first parameter; NULL: unknown, and the call was answered. */
const struct config_subsystem *api_subsystem_of(struct api_call *call);

/* ---- changes --------------------------------------------------------------------------------- */

/* Changes the document with `edit`. Answers {"generation", "applied", "diff"}, or with the
 * errors. */
void api_change(struct api_call *call,
		int (*edit)(struct api_call *call, json_t *document, struct config_errors *errors));
/* Gives the same answer for changes that other code submits (`done` of struct change). */
void api_change_done(void *arg_call, struct change_result *result);
/* The lines of a config_diff, as an array. */
json_t *api_diff_json(const char *diff);
/* Sets the path of what the call made, after "/v1". call->location stays NULL without memory. */
void api_made(struct api_call *call, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* ---- the document (api_document.c; finding things in it: config/document.h) ------------------ */

/* Each adds an error that names the unknown thing, and returns -ENOENT. */
int document_no_subsystem(const char *nqn, struct config_errors *errors);
int document_no_ns(const char *nqn, uint32_t nsid, struct config_errors *errors);
int document_no_port(uint32_t id, struct config_errors *errors);
/* RFC 7396: null removes a key, which then has its default again. 0 or -ENOMEM. */
int document_merge(json_t *object, const json_t *patch);
/* -EINVAL with an error when the patch would change the name of an element of this kind. */
int document_keeps(const struct config_object *object, const json_t *element, const json_t *patch,
		   struct config_errors *errors);
/* Makes a medium's spec with another size, rounded up to whole blocks (*ret_rounded: the rounded
 * size in bytes; 0: not rounded). 0, or -errno with an error. The caller frees *ret_spec. */
int document_media_resize(const char *spec, const json_t *size, char **ret_spec,
			  uint64_t *ret_rounded, struct config_errors *errors);
/* -EINVAL with an error when the size in the spec is not a whole number of blocks. */
int document_media_check_size(const char *spec, struct config_errors *errors);

/* ---- handlers -------------------------------------------------------------------------------- */

void api_state_get(struct api_call *call);
void api_health_get(struct api_call *call);
void api_health_acknowledge(struct api_call *call);
void api_audit_get(struct api_call *call);
void api_history_get(struct api_call *call);
void api_generation_get(struct api_call *call);
void api_rollback_post(struct api_call *call);
void api_connections_get(struct api_call *call);
void api_peers_get(struct api_call *call);
void api_openapi_get(struct api_call *call);
void api_config_get(struct api_call *call);
void api_config_put(struct api_call *call);
void api_config_import(struct api_call *call);
void api_subsystems_get(struct api_call *call);
void api_subsystems_post(struct api_call *call);
void api_subsystem_get(struct api_call *call);
void api_subsystem_patch(struct api_call *call);
void api_subsystem_delete(struct api_call *call);
void api_hosts_get(struct api_call *call);
void api_hosts_post(struct api_call *call);
void api_host_delete(struct api_call *call);
void api_namespaces_get(struct api_call *call);
void api_namespaces_post(struct api_call *call);
void api_ns_get(struct api_call *call);
void api_ns_patch(struct api_call *call);
void api_ns_delete(struct api_call *call);
void api_reservations_get(struct api_call *call);
void api_reservation_delete(struct api_call *call);
void api_removed_get(struct api_call *call);
void api_removed_delete(struct api_call *call);
void api_ports_get(struct api_call *call);
void api_ports_post(struct api_call *call);
void api_port_get(struct api_call *call);
void api_port_patch(struct api_call *call);
void api_port_delete(struct api_call *call);
void api_ana_get(struct api_call *call);
void api_ana_put(struct api_call *call);

#endif
