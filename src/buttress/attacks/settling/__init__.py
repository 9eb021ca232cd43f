"""The worst input of a threat, exactly: of trees by search and integer programs, of linear models in closed form."""
