// The files of Sources/API/Pages, embedded in the binary with C. In Swift, their bytes would be an array literal.
// Compiling that literal would take half a minute and 2 GB of memory.
#ifndef DWELL_CPAGES_H
#define DWELL_CPAGES_H
#include <stddef.h>

// A file. The bytes are constants of the binary.
struct dwell_page {
    const unsigned char *bytes;
    size_t count;
};

struct dwell_page dwell_page_openapi_json(void);
struct dwell_page dwell_page_docs_html(void);
struct dwell_page dwell_page_docs_css(void);
struct dwell_page dwell_page_docs_js(void);
struct dwell_page dwell_page_ops_html(void);
struct dwell_page dwell_page_ops_css(void);
struct dwell_page dwell_page_ops_js(void);
struct dwell_page dwell_page_ops_draw_js(void);
struct dwell_page dwell_page_ops_history_js(void);
struct dwell_page dwell_page_ops_cases_js(void);
struct dwell_page dwell_page_ops_start_js(void);
#endif
