"""A path of C with folds: how much should the rows count?"""

# %%
# The data come with scikit-learn: measurements of 569 tumours, and whether each is benign. A quarter is for the test.
# Columns are scaled by what the rows for training say.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

from streamsvm import StreamSVC

data = load_breast_cancer()
answers = data.target_names[data.target]
X, X_test, y, y_test = train_test_split(data.data, answers, test_size=0.25, random_state=0, stratify=answers)
scaler = StandardScaler().fit(X)
X, X_test = scaler.transform(X), scaler.transform(X_test)

# %%
# C is the weight of the losses. With a small one the model hardly looks at the rows, with a large one it believes each.
# `C` may be a list. With `cv=5` each value is tried on five folds: four train, the fifth is predicted.
# The value with the best mean wins, and the model is trained anew with it, on all rows.

values = np.logspace(-4, 0, 9)
model = StreamSVC(values.tolist(), cv=5).fit(X, y)
accuracy = model.score(X_test, y_test)
print(f"C = {model.C_:.3g} wins; accuracy {accuracy:.3f} on the test")

# %%
# `cv_results_` has the form of GridSearchCV's. It has every metric, whichever one `scoring` names.

results = pd.DataFrame(model.cv_results_)
shown = ["param_C", "mean_test_score", "std_test_score", "rank_test_score", "mean_test_auc"]
print(results[shown].to_string(index=False))

# %%
# The path. The best value is in its middle. The bars are standard deviations over the folds. Neighbours are as good.

figure, path = plt.subplots(layout="constrained")
mean, deviation = results["mean_test_score"], results["std_test_score"]
path.errorbar(values, mean, deviation, marker="o", capsize=3, label="mean of 5 folds")
path.axvline(model.C_, linestyle="--", color="grey", label=f"selected: C = {model.C_:.3g}")
path.set(xscale="log", xlabel="C", ylabel="accuracy")
path.legend()
figure.savefig("c_path.png")
