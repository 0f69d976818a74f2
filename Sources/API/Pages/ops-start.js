// Runs last, when every part of the page is there: goes on with the token and the time of this tab.
"use strict";

const keptRange = sessionStorage.getItem(rangeKey);
if (keptRange !== null) chooseRange(keptRange);
if (token !== null) look();
