// Runs last, after all other scripts of the page. Restores this tab's token and time range.
"use strict";

const keptRange = sessionStorage.getItem(rangeKey);
if (keptRange !== null) chooseRange(keptRange);
if (token !== null) look();
