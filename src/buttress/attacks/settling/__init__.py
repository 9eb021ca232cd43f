"""The worst input of a threat, exactly: of trees by a mixed-integer program, of linear models in closed form."""
