// Runs last, when every part of the page is loaded. Restores the token and the time range that were stored for this
// tab.
"use strict";

const keptRange = sessionStorage.getItem(rangeKey);
if (keptRange !== null) chooseRange(keptRange);
if (token !== null) look();
